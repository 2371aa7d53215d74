"""The qr engine's registers and counters: what the host must know of an engine."""

from __future__ import annotations

from ..shell import Counter, EngineRegister, Monitor, RegisterMap
from .errors import FitError

__all__ = ["ADDRESS_BITS", "register_map"]

#: bits of a byte address
ADDRESS_BITS = 48


def register_map(design: int = 0) -> RegisterMap:
    """Return the register map of a qr engine.

    A run: the jobs whose descriptors lie from `ring` on, one behind the other, each in 64 bytes, or a bus word if that is larger.
    """
    return RegisterMap(
        [
            EngineRegister("ring", ADDRESS_BITS, "the first job's descriptor, aligned to the bus"),
            EngineRegister("jobs", 32, "how many there are"),
        ],
        [
            Counter("jobs_ended", "jobs whose result is written"),
            Counter("jobs_failed", "those among them whose result is an error"),
            Counter("passes", "passes over all rows for the bounds"),
            Counter("records", "changes and places added up"),
            Counter("held", "cycles in which a word was there and not taken", progress=False),
        ],
        [Monitor("words"), Monitor("results")],
        design,
        errors=(FitError,),
    )
