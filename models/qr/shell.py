"""Registers, counters and errors of both engines of fits: what the host must know of them."""

from __future__ import annotations

from ..errors import HardwareCode
from ..ring import Ring
from ..shell import Counter, EngineRegister, Monitor, RegisterMap
from ..strider.errors import PageError

__all__ = ["ADDRESS_BITS", "FitError", "register_map", "table_register_map"]

#: bits of a byte address
ADDRESS_BITS = 48


class FitError(HardwareCode):
    """What stopped a job; `block` of the report is the job's index in the run. The host packs jobs,
    so each but QR_DOWNDATE is a defect of the host's."""

    QR_DESCRIPTOR = 80, "the job's descriptor contradicts itself", "", "E817"
    QR_COLUMNS = 81, "the job has more columns than the engine, or an empty window", "", "E817"
    QR_ROWS = (
        82,
        "the job has more rows, or a larger label, than the engine's integers hold",
        "",
        "E817",
    )
    QR_ORDER = 83, "rows or labels are out of order", "", "E817"
    QR_MEMO = 84, "the memo is of another method or set of rows, or there is none", "", "E817"
    QR_WINDOW = 85, "the memo is of another byte window, or of other offsets", "", "E817"
    QR_DOWNDATE = (
        86,
        "too little of a triangular factor would be left without the rows removed",
        "train the group afresh",
        "E817",
    )


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


def table_register_map(design: int = 0, ring: int = 0) -> RegisterMap:
    """Return the register map of an engine over columns: totals and answer are aligned to the bus, pages to their size. `ring`: slots for pages, if any."""
    rings = [Ring(0)] if ring else []
    made = [
        EngineRegister("totals", ADDRESS_BITS, "the sums of the fit before"),
        EngineRegister("answer", ADDRESS_BITS, "where new sums and weights go"),
    ]
    for name in ("come", "go"):
        made += [
            EngineRegister(
                f"{name}_address", ADDRESS_BITS, f"the first page of the rows that {name}"
            ),
            EngineRegister(f"{name}_pages", 32, "how many pages; 0: none"),
            EngineRegister(f"{name}_skip", 32, "rows before them"),
            EngineRegister(f"{name}_rows", 32, "how many rows"),
            EngineRegister(f"{name}_block", 32, "the first page's number, for errors"),
        ]
    made += [ring.register for ring in rings]
    return RegisterMap(
        made,
        [
            Counter("summed", "rows added or taken"),
            Counter("left", "rows of the same pages left alone"),
            Counter("held", "cycles in which a row waited for the sums", progress=False),
            *(ring.counter for ring in rings),
        ],
        [Monitor("tuples"), Monitor("words")],
        design,
        errors=(PageError,),
    )
