"""Cores for encryption, hashes and key agreement: no proof is about them, and no kernel has them yet."""

from __future__ import annotations

from penstock.hdl.omap.door import Door
from penstock.hdl.omap.opening_frames import OpeningFrames
from penstock.hdl.omap.session_answers import SessionAnswers
from penstock.hdl.omap.session_requests import SessionRequests

from .omap import SMALL

PROOFS = []
COMPONENTS = {
    "hdl.omap.Door": lambda: Door(digest=bytes(32), slots=64),
    "hdl.omap.OpeningFrames": lambda: OpeningFrames(SMALL),
    "hdl.omap.SessionAnswers": lambda: SessionAnswers(SMALL, slots=64),
    "hdl.omap.SessionRequests": lambda: SessionRequests(SMALL, slots=64),
}
