"""Cores for encryption, hashes and key agreement: no proof is about them, and no kernel has them yet."""

from __future__ import annotations

from penstock.hdl.omap.session_engine import SessionEngine

from .omap import SMALL

PROOFS = []
COMPONENTS = {
    "hdl.omap.SessionEngine": lambda: SessionEngine(SMALL, digest=bytes(32)),
}
