"""The analytics engine's registers, counters and memory images: what the host must know of a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..memory.bursts import Writer, burst_count
from ..numerics.formats import Codes
from ..ring import Ring
from ..rows.errors import RowCode
from ..shell import Counter, EngineRegister, Legal, Monitor, RegisterMap, address
from ..strider.errors import PageError
from ..strider.fixed import FIXED_COUNT_BITS
from .config import AnalyticsPlan

MAX_EPOCHS = 2**31 - 1  #: of a run
#: bits of a byte address, and of those of a lean plan
ADDRESS_BITS, LEAN_ADDRESS_BITS = 40, 26


def address_bits(plan: AnalyticsPlan) -> int:
    """Return the bits of the byte addresses that the plan's engine handles: enough to pass the end of a memory that is known."""
    if not plan.striders.lean:
        return ADDRESS_BITS
    return (
        max(12, (plan.striders.memory_bytes - 1).bit_length() + 1)
        if plan.striders.memory_bytes
        else LEAN_ADDRESS_BITS
    )


def count_bits(plan: AnalyticsPlan) -> int:
    """Return the bits of numbers of epochs."""
    return FIXED_COUNT_BITS if plan.striders.lean else 32


def page_bits(plan: AnalyticsPlan) -> int:
    return (
        min(count_bits(plan), (plan.striders.memory_bytes // plan.page_size).bit_length())
        if plan.striders.lean and plan.striders.memory_bytes
        else count_bits(plan)
    )


def beats_bits(plan: AnalyticsPlan) -> int:
    """Return the bits of a read command's length in bus words: of a page's, or the boot image's."""
    if not plan.striders.lean:
        return 24
    return (max(plan.page_size, image_bytes(plan)[0]) // plan.bus_bytes).bit_length()


@dataclass(frozen=True)
class ScoreRoom:
    """What holds scores on their way out."""

    burst: int  #: words that are written at once
    words: int  #: words that the queue holds
    codes: int  #: codes that may be under way


def score_room(plan: AnalyticsPlan) -> ScoreRoom:
    """Return the room of a plan that scores: for two bursts and for the groups that are being computed."""
    burst, per_word = max(1, 128 // plan.bus_bytes), plan.bus_bytes // plan.format.container
    groups = (plan.schedule.settle + 16) // plan.schedule.interval + 2
    words = 2 * burst + 1 + -(-groups * plan.threads // per_word)
    words = 1 << (words - 1).bit_length()
    return ScoreRoom(burst, words, words * per_word)


def result_beats_bits(plan: AnalyticsPlan) -> int:
    """Return the bits of the length in bus words with which the result is written."""
    if not plan.learns:
        return score_room(plan).burst.bit_length()
    return (image_bytes(plan)[1] // plan.bus_bytes).bit_length() if plan.striders.lean else 24


def open_writes(plan: AnalyticsPlan) -> int:
    """Return how many write bursts run ahead of their data: those of the whole result, where it is small."""
    if not plan.learns:
        return Writer.AHEAD
    return (
        min(
            Writer.AHEAD,
            burst_count(4096 - plan.bus_bytes, (1 << result_beats_bits(plan)) - 1, plan.bus_bytes),
        )
        if plan.striders.lean
        else Writer.AHEAD
    )


def _counters(plan: AnalyticsPlan, rings: Sequence[Ring]) -> list[Counter]:
    """Return what the engine counts."""
    wide = 32 if plan.striders.lean else 48
    counters = [
        Counter("tuples", "tuples trained on", max(plan.threads.bit_length(), 1), bits=wide),
        Counter("groups", "groups started", bits=wide),
        Counter("batches", "batches closed", bits=wide),
        Counter("epochs", "epochs ended", bits=count_bits(plan) if plan.striders.lean else wide),
        Counter(
            "starved",
            "cycles in which a group could have started but for want of tuples",
            progress=False,
            bits=wide,
        ),
        Counter("converged", "1 when the convergence test ended the run", bits=1),
    ]
    if plan.rows.tables:
        counters += [Counter(name, what, bits=wide) for name, what in ROW_COUNTERS.items()]
    if plan.striders.lean:  # the others tell how a run went, not what it did
        counters = [c for c in counters if c.name in ("tuples", "epochs", "converged")]
    return [*counters, *(ring.counter for ring in rings)]


def register_map(plan: AnalyticsPlan, design: int = 0) -> RegisterMap:
    """Return the register map of the engine that `plan` describes."""
    bits, bus = address_bits(plan), plan.bus_bytes
    boot, result = image_bytes(plan)
    pages = tuple(f"page_address{q}" for q in range(plan.ports))
    # scores leave by bursts while pages are read, once
    scores = not plan.learns
    unit = bus * (score_room(plan).burst if scores else 1)
    most, what = 1 if scores else MAX_EPOCHS, "where the models go, aligned to the bus"
    registers = [
        address("boot_address", bits, "program and parameters, aligned to the bus", bus, boot),
        address("result_address", bits, what, unit, result, apart=pages if scores else ()),
        EngineRegister(
            "epochs",
            count_bits(plan),
            "most passes over the table",
            reset=max(plan.epochs, 1),
            legal=Legal(least=1, most=most),
        ),
    ]
    for q, name in enumerate(pages):
        what, ring = (
            f"port {q}'s first page, aligned to the bus",
            plan.page_size * plan.striders.ring,
        )
        registers += [
            address(name, bits, what, bus, ring, () if ring else [(f"pages{q}", plan.page_size)]),
            EngineRegister(
                f"pages{q}", page_bits(plan), f"port {q}'s pages; 0: none", legal=Legal()
            ),
        ]
    rings = [Ring(q) for q in range(plan.ports if plan.striders.ring else 0)]
    registers += [ring.register for ring in rings]
    # rows lie beside pages and models, or in memory of their own
    apart = ["boot_address", "result_address", *pages] if plan.rows.deal.ports == 1 else []
    sizes_of_rows = plan.row_unit.sizes if plan.row_unit else ()
    for t, (table, (size, rows)) in enumerate(zip(plan.rows.tables, sizes_of_rows, strict=True)):
        name, what = f"row_address{t}", f"rows of {' and '.join(table.models)}, aligned to a row"
        registers.append(address(name, bits, what, size, size * rows, apart=apart))
        apart = [*apart, name]
    monitors = [Monitor(f"tuples{q}") for q in range(plan.ports)]
    return RegisterMap(
        registers,
        _counters(plan, rings),
        monitors,
        design,
        cycle_bits=40 if plan.striders.lean else 64,
        errors=(PageError, RowCode) if plan.watches else (PageError,),
    )


#: counters of the row unit
ROW_COUNTERS = {
    "row_lookups": "rows of models in memory that tuples asked for",
    "row_hits": "of those, found in a line",
    "rows_fetched": "rows fetched from memory",
    "rows_written": "rows written back to memory",
}


@dataclass(frozen=True)
class Images:
    """What lies in memory besides the pages: the boot image, and how many bytes the result takes."""

    boot: np.ndarray
    result_bytes: int


def _round(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass(frozen=True)
class Part:
    """A model of a block: its `buffer`, at which code of a beat its own begin, and how many its beats have."""

    buffer: int
    first: int
    codes: int


@dataclass(frozen=True)
class Block:
    """Models that go in and out together, beat by beat, from the beginning of a bus word on; all have as many beats."""

    parts: tuple[Part, ...]
    beats: int
    size: int  #: bytes of a beat, a power of two
    together: int  #: beats in a word
    words: int  #: words that a beat takes, where it takes several

    @property
    def bus_words(self) -> int:
        return -(-self.beats // self.together) * self.words

    def image(self, models: Sequence[Codes], container: int) -> np.ndarray:
        """Return the bytes of the models' codes (rows, cols), not filled up to a bus word."""
        content = np.zeros((self.beats, self.size // container), np.int64)
        for part, codes in zip(self.parts, models, strict=True):
            rows, cols = codes.shape
            wide = np.zeros((rows, self.beats // rows * part.codes), np.int64)
            wide[:, :cols] = codes
            content[:, part.first : part.first + part.codes] = wide.reshape(self.beats, part.codes)
        return content.astype(f"<u{container}").view(np.uint8).ravel()

    def codes(self, image: Codes, part: Part, shape: tuple[int, int]) -> Codes:
        """Return a model's codes, of this shape, from those at the block's place."""
        each = image.reshape(self.beats, -1)[:, part.first : part.first + part.codes]
        return each.reshape(shape[0], -1)[:, : shape[1]]


def blocks(plan: AnalyticsPlan) -> list[Block]:
    """Return what goes in and out beat by beat, in order: the models of a plan with rows, those of as many beats together where a bus word has a beat of
    each. Of other plans each code goes by itself."""
    bus, container = plan.bus_bytes, plan.format.container
    groups: list[tuple[int, list[Part]]] = []
    for n in plan.core.roles.models if plan.by_rows else ():
        buffer = plan.core.buffers[n]
        beats, codes = buffer.beats(plan.lanes), buffer.width(plan.lanes)
        for known, parts in groups:
            used = parts[-1].first + parts[-1].codes
            if known == beats and (used + codes) * container <= bus:
                parts.append(Part(n, used, codes))
                break
        else:
            groups.append((beats, [Part(n, 0, codes)]))
    blocks = []
    for beats, parts in groups:
        size = 1 << ((parts[-1].first + parts[-1].codes) * container - 1).bit_length()
        blocks.append(Block(tuple(parts), beats, size, max(bus // size, 1), max(size // bus, 1)))
    return blocks


def sizes(plan: AnalyticsPlan) -> tuple[int, int, int]:
    """Return (32-bit program words, codes of runs and models, codes of models that are written back), of what goes code by code."""
    count = lambda numbers: sum(plan.buffers[n].rows * plan.buffers[n].cols for n in numbers)
    models = () if plan.by_rows else plan.roles.models
    written = models if plan.learns else ()
    return len(plan.program), count((*plan.roles.runs, *models)), count(written)


def image_bytes(plan: AnalyticsPlan) -> tuple[int, int]:
    """Return the bytes of a run's boot image and of its result."""
    words, parameters, results = sizes(plan)
    bus, container = plan.bus_bytes, plan.format.container
    wide = bus * sum(block.bus_words for block in blocks(plan))
    boot = _round(4 * words, bus) + _round(container * parameters, bus) + wide
    return boot, _round(container * results, bus) + wide * plan.learns


def images(plan: AnalyticsPlan, runs: Sequence[Codes], models: Mapping[str, Codes]) -> Images:
    """Return the memory images of a run.

    The boot image is the Strider program (32-bit words), filled up to a bus word, then the codes of run constants and models in plan order, row by
    row, each in a container of `format.container` bytes, filled up to a bus word; of models in `blocks` their beats.
    """
    bus, container = plan.bus_bytes, plan.format.container
    named = {n: np.asarray(models[plan.buffers[n].name], np.int64) for n in plan.core.roles.models}
    codes = [np.asarray(c, dtype=np.int64).ravel() for c in runs]
    codes += [] if plan.by_rows else [of.ravel() for of in named.values()]
    packed = np.concatenate([np.zeros(0, np.int64), *codes]).astype(f"<u{container}")
    parts = [np.array(plan.program, dtype="<u4").view(np.uint8), packed.view(np.uint8)]
    for block in blocks(plan):
        buffers = ((part.buffer, plan.core.buffers[part.buffer]) for part in block.parts)
        parts.append(block.image([named[n].reshape(b.rows, b.cols) for n, b in buffers], container))
    filled = [np.pad(part, (0, -len(part) % bus)) for part in parts]
    return Images(np.concatenate(filled), image_bytes(plan)[1])


def unpack_result(plan: AnalyticsPlan, memory: np.ndarray) -> dict[str, Codes]:
    """Return the models as codes (rows, cols) by name from the bytes at the result address; not those whose rows lie in memory."""
    container = plan.format.container
    codes = np.frombuffer(memory.tobytes(), dtype=f"<u{container}").astype(np.int64)
    result, position = {}, 0
    for block in blocks(plan):
        size = block.beats * block.size // container
        for part in block.parts:
            buffer, image = plan.buffers[part.buffer], codes[position : position + size]
            result[buffer.name] = block.codes(image, part, (buffer.rows, buffer.cols))
        position += block.bus_words * plan.bus_bytes // container
    for n in () if plan.by_rows else plan.core.roles.models:
        buffer = plan.buffers[n]
        size = buffer.rows * buffer.cols
        result[buffer.name] = codes[position : position + size].reshape(buffer.rows, buffer.cols)
        position += size
    return result
