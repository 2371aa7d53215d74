"""Cores for encryption, hashes and key agreement: no proof is about them, and no kernel has them yet."""

from __future__ import annotations

from penstock.hdl.crypto.handshake import Handshake
from penstock.hdl.omap.sessions import SessionTable
from penstock.hdl.omap.vault import KeySchedule

PROOFS = []
COMPONENTS = {
    "hdl.crypto.Handshake": lambda: Handshake(payload=16),
    "hdl.omap.KeySchedule": KeySchedule,
    "hdl.omap.SessionTable": lambda: SessionTable(slots=64),
}
