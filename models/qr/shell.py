"""Registers, counters and errors of both engines of fits: what the host must know of them."""

from ..errors import ErrorEntry, HardwareCode
from ..ring import Ring
from ..shell import Counter, EngineRegister, Legal, Monitor, RegisterMap, address
from ..strider.errors import PageError
from .columns import ROWS_MAX
from .config import FitPlan
from .layout import DESCRIPTOR_BYTES
from .table_config import TableFitPlan

#: bits of a byte address
ADDRESS_BITS = 48


class FitError(HardwareCode):
    """What stopped a job; `block` of the report is the job's index in the run. The host packs jobs,
    so each but QR_DOWNDATE is a defect of the host's. QR_SHORT is of a fit over columns, and QR_ROWS may be: `block` is then
    the first page's number, `item` 1 for rows that come, 2 for rows that go."""

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
    QR_SHORT = 87, "the pages have fewer rows than the run asks for", "", "E817"


def register_map(config: FitPlan, design: int = 0) -> RegisterMap:
    """Return the register map of a qr engine.

    A run: the jobs whose descriptors lie from `ring` on, one behind the other, each in 64 bytes, or a bus word if that is larger.
    """
    bus, what = config.bus_bytes, "the first job's descriptor, aligned to the bus"
    return RegisterMap(
        [
            address("ring", ADDRESS_BITS, what, bus, each=[("jobs", max(DESCRIPTOR_BYTES, bus))]),
            EngineRegister("jobs", 32, "how many there are", legal=Legal()),
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


def table_register_map(config: TableFitPlan, design: int = 0) -> RegisterMap:
    """Return the register map of an engine over columns, all of whose addresses are aligned to the bus; with a register for its ring, if it has one."""
    rings, bus = [Ring(0)] if config.ring else [], config.bus_bytes
    totals, answer = bus * config.totals_words, bus * config.answer_words
    registers = [
        address("totals", ADDRESS_BITS, "the sums of the fit before", bus, totals),
        address("answer", ADDRESS_BITS, "where new sums and weights go", bus, answer),
    ]
    numbers = {
        "pages": ("how many pages; 0: none", Legal()),
        "skip": ("rows before them", Legal()),
        "rows": ("how many rows", Legal(most=ROWS_MAX)),
        "block": ("the first page's number, for errors", Legal()),
    }
    page, ring = config.walk.schema.page_size, config.ring
    for name in ("come", "go"):
        what, each = f"the first page of the rows that {name}", [(f"{name}_pages", page)]
        registers += [
            address(f"{name}_address", ADDRESS_BITS, what, bus, page * ring, () if ring else each),
            *(EngineRegister(f"{name}_{n}", 32, of, legal=le) for n, (of, le) in numbers.items()),
        ]
    registers += [ring.register for ring in rings]
    return RegisterMap(
        registers,
        [
            Counter("summed", "rows added or taken"),
            Counter("left", "rows of the same pages left alone"),
            Counter("held", "cycles in which a row waited for the sums", progress=False),
            *(ring.counter for ring in rings),
        ],
        [Monitor("tuples"), Monitor("words")],
        design,
        errors=(PageError, *map(ErrorEntry.of, (FitError.QR_ROWS, FitError.QR_SHORT))),
    )
