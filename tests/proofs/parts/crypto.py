"""The map whole, with its door: no proof is about the cores behind it, and no kernel here has them otherwise."""

from __future__ import annotations

from penstock.hdl.omap.engine import MapEngine

from .omap import SMALL

PROOFS = []
COMPONENTS = {
    "hdl.omap.MapEngine": lambda: MapEngine(SMALL, digest=bytes(32), state=True),
}
