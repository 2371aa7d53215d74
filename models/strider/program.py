"""Strider programs made from a table's schema and a tuple layout.

A program has two parts after its loop start. The *dense* part serves tuples without a null bitmap that hold all the attributes that
are needed: runs of columns of one type and whole arrays take one instruction. The *sparse* part serves every other tuple, attribute by
attribute. Both deliver the same values where both apply; `bentr` chooses.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..heap.page import align, pagesize_version
from ..heap.schema import TYPES, ColumnType
from ..heap.values import DTYPES
from ..numerics.convert import numbers_of
from ..numerics.limbs import Limbs
from ..numerics.policy import Unfit
from . import landing
from .config import PortConfig, WalkConfig
from .isa import BITMAP_GROUP, FIXED_TYPES, Base, Instruction, Op, encode, short_possible

#: the largest field of an instruction word
_LIMIT = (1 << 16) - 1


def missing_codes(walk: WalkConfig, index: int) -> Any:
    """Codes of column `index`'s missing value, one for each element, or None where such tuples hold NULL.

    Raises ValueError where an array's missing value does not have the expected length.
    """
    raw = _missing(walk, index)
    if raw is None:
        return None
    at = _landing(walk, index, len(raw))
    codes = landing.codes(walk.element(index), raw, walk.format, at, walk.layout.integers)
    return np.asarray(codes, dtype=np.int64)


def missing_fits(walk: WalkConfig, index: int) -> NDArray[np.uint8] | None:
    """How the numbers of `missing_codes` fit in the format (`numerics.policy.Unfit`)."""
    raw = _missing(walk, index)
    if raw is None:
        return None
    at = _landing(walk, index, len(raw))
    return landing.fits(walk.element(index), raw, walk.format, at, walk.layout.integers)


def missing_numbers(walk: WalkConfig, index: int, element: int) -> int | float | None:
    """Return the number that an element of column `index` has in rows older than the column, None where that is none."""
    raw = _missing(walk, index)
    if raw is None:
        return None
    one = raw[element if walk.schema.columns[index].is_array else 0]
    number: int | float = numbers_of(walk.element(index), np.atleast_1d(one).astype(np.uint64))[
        0
    ].item()
    return number


def _landing(walk: WalkConfig, index: int, elements: int) -> NDArray[np.int64]:
    """Return the flat positions of column `index`'s elements; 0 for those that nobody uses."""
    places = np.zeros(elements, np.int64)
    for source in walk.sources(index):
        first = source.first if walk.schema.columns[index].is_array else 0
        places[first : first + source.count] = source.position + np.arange(source.count)
    return places


def _missing(walk: WalkConfig, index: int) -> Any:
    """Return the stored patterns of column `index`'s missing value, or None."""
    column = walk.schema.columns[index]
    if column.missing is None:
        return None
    element = walk.element(index)
    values = np.atleast_1d(np.asarray(column.missing, DTYPES[element]))
    if column.is_array and len(values) != walk.array_length(index):
        raise ValueError(
            f"the missing value of column {column.name!r} has {len(values)} elements, not {walk.array_length(index)}"
        )
    return np.frombuffer(values.tobytes(), f"<u{TYPES[element].length}")


def _at(walk: WalkConfig, position: int) -> dict[str, int]:
    return {"beat": position // walk.layout.lanes, "lane": position % walk.layout.lanes}


def _step(size: int) -> int:
    """Return the code of a type of this length and alignment."""
    return FIXED_TYPES.index({1: "bool", 2: "int2", 4: "int4", 8: "int8"}[size])


def _over(kind: ColumnType, index: int | None = None) -> list[Instruction]:
    """Step over a value of fixed length at P; only if attribute `index` is present where that is given."""
    if_present = {} if index is None else {"attr": index, "test": 1}
    steps, rest = divmod(kind.length, kind.align)
    out = [Instruction(Op.CLN, type=_step(kind.align), base=Base.P, count=steps, **if_present)]
    return (
        [*out, Instruction(Op.CLN, type=_step(1), base=Base.P, count=rest, **if_present)]
        if rest
        else out
    )


def _runs(walk: WalkConfig, index: int, code: int, **if_present: int) -> list[Instruction]:
    """Read what is used of an array's elements, behind its header at A."""
    size = TYPES[walk.element(index)].length
    return [
        Instruction(
            Op.RUN,
            type=code,
            base=Base.A,
            offset=source.first * size,
            count=source.count,
            **if_present,
            **_at(walk, source.position),
        )
        for source in walk.sources(index)
    ]


def _dense(walk: WalkConfig) -> list[Instruction]:
    out: list[Instruction] = []
    place: int | None = 0  # offset from D; None: only P knows
    for index in range(walk.needed):
        column = walk.schema.columns[index]
        kind = column.storage
        sources = walk.sources(index)
        if kind.length > 0 and not sources:
            if place is None:
                out += _over(kind)
            else:
                place = align(place, kind.align) + kind.length
            continue
        if kind.length > 0:
            code = FIXED_TYPES.index(walk.element(index))
            base = Base.P if place is None else Base.D
            at = 0 if place is None else align(place, kind.align)
            if at > _LIMIT:
                raise ValueError(
                    f"column {column.name!r} starts at byte {at} of a tuple; a page has fewer"
                )
            for k, source in enumerate(sources):
                keep = int(place is None and k + 1 < len(sources))
                out.append(
                    Instruction(
                        Op.RUN,
                        type=code,
                        base=base,
                        offset=at,
                        count=1,
                        keep=keep,
                        **_at(walk, source.position),
                    )
                )
            place = None if place is None else at + kind.length
            continue
        code = FIXED_TYPES.index(kind.element or {4: "int4", 8: "int8"}[kind.align])
        if not sources:
            if place:  # P stands at the data's start
                out.append(Instruction(Op.CLN, type=0, base=Base.D, offset=place, count=0))
            out.append(Instruction(Op.VAR, type=code, attr=index))
        else:
            element, count = walk.element(index), walk.array_length(index)
            base, offset = (Base.P, 0) if place is None else (Base.D, place)
            arr = Instruction(Op.ARR, type=code, base=base, offset=offset, count=count, attr=index)
            if (
                place is not None
                and short_possible(element, count)
                and out
                and out[-1].op == Op.RUN
            ):
                out.insert(
                    len(out) - 1, arr
                )  # its header is under way while the run before it is read
            else:
                out.append(arr)
            out += _runs(walk, index, code)
        place = None
    return _merge(walk, out)


def _flat(walk: WalkConfig, instruction: Instruction) -> int:
    return instruction.beat * walk.layout.lanes + instruction.lane


def _joined(
    program: list[Instruction], joins: Callable[[Instruction, Instruction], bool]
) -> list[Instruction]:
    """Join neighbouring instructions of one operation and type where `joins` says so."""
    out: list[Instruction] = []
    for new in program:
        old = out[-1] if out else None
        alike = old is not None and (old.op, old.type) == (new.op, new.type)
        if old is not None and alike and not old.keep | new.keep and joins(old, new):
            out[-1] = replace(old, count=old.count + new.count)
        else:
            out.append(new)
    return out


def _merge(walk: WalkConfig, program: list[Instruction]) -> list[Instruction]:
    """Join neighbouring instructions on consecutive bytes and consecutive flat positions."""

    def joins(old: Instruction, new: Instruction) -> bool:
        if old.base != new.base or old.count + new.count > _LIMIT:
            return False
        if new.op == Op.CLN:  # at P: but one starts from D
            return True
        size = TYPES[FIXED_TYPES[old.type]].length
        follows = old.base == Base.P or new.offset == old.offset + old.count * size
        return new.op == Op.RUN and follows and _flat(walk, old) + old.count == _flat(walk, new)

    return _joined(program, joins)


def _sparse(walk: WalkConfig) -> list[Instruction]:
    out: list[Instruction] = []
    skip = int(walk.layout.on_null == "skip")
    for index in range(walk.needed):
        column = walk.schema.columns[index]
        kind = column.storage
        sources = walk.sources(index)
        if index % BITMAP_GROUP == 0:
            out.append(Instruction(Op.EXTRBI, attr=index))
        lacking = int(bool(sources) and missing_codes(walk, index) is not None)
        if kind.length > 0 and not sources:
            if kind.length == kind.align:  # neighbours of one kind share an instruction
                out.append(Instruction(Op.ATT, type=_step(kind.align), count=1, attr=index))
            else:
                out += _over(kind, index)
        elif kind.length > 0:
            code = FIXED_TYPES.index(walk.element(index))
            for k, source in enumerate(sources):
                out.append(
                    Instruction(
                        Op.ATT,
                        type=code,
                        count=1,
                        attr=index,
                        use=1,
                        missing=lacking,
                        flag=skip,
                        keep=int(k + 1 < len(sources)),
                        **_at(walk, source.position),
                    )
                )
        else:
            code = FIXED_TYPES.index(kind.element or {4: "int4", 8: "int8"}[kind.align])
            if not sources:
                out.append(Instruction(Op.VAR, type=code, attr=index, test=1))
            else:
                out.append(
                    Instruction(
                        Op.ARR,
                        type=code,
                        base=Base.P,
                        count=walk.array_length(index),
                        attr=index,
                        test=1,
                        missing=lacking,
                        flag=skip,
                    )
                )
                out += _runs(walk, index, code, attr=index, test=1)
        out += _insertions(walk, index) if sources else []
    return _merge_attributes(walk, out)


def _insertions(walk: WalkConfig, index: int) -> list[Instruction]:
    """What inserts the values of a column that older rows do not have."""
    constants, fits = missing_codes(walk, index), missing_fits(walk, index)
    if constants is None or fits is None:
        return []
    out: list[Instruction] = []
    units = isinstance(walk.format, Limbs)
    for source in walk.sources(index):
        for k in range(source.count):
            element = source.first + k if walk.schema.columns[index].storage.length < 0 else 0
            # integers in units of a column: hardware is told them before a run
            value = 0 if units else int(constants[element])
            out.append(
                Instruction(
                    Op.INS,
                    count=value & _LIMIT,
                    offset=value >> 16,
                    attr=index,
                    use=int(fits[element] in (Unfit.NAN, Unfit.LEFT_INDEX, Unfit.LEFT_UNSEEN)),
                    keep=int(fits[element] in (Unfit.OVERFLOW, Unfit.INDEX) and not units),
                    **_at(walk, source.position + k),
                )
            )
    return out


def _merge_attributes(walk: WalkConfig, program: list[Instruction]) -> list[Instruction]:
    """Join `att` instructions on consecutive attributes of one kind; used ones also need consecutive flat positions."""

    def joins(old: Instruction, new: Instruction) -> bool:
        alike = (old.use, old.missing, old.flag) == (new.use, new.missing, new.flag)
        if new.op != Op.ATT or not alike or old.attr + old.count != new.attr:
            return False
        return not old.use or _flat(walk, old) + old.count == _flat(walk, new)

    return _joined(program, joins)


def _close(part: list[Instruction]) -> list[Instruction]:
    """Let the last instruction leave the loop; an empty part gets a `bexit` of its own."""
    return [*part[:-1], replace(part[-1], bexit=1)] if part else [Instruction(Op.BEXIT, bexit=1)]


def generate(walk: WalkConfig) -> list[Instruction]:
    """Return the program for a table and a layout. Raises ValueError where the schema has more columns than PostgreSQL allows, or fields overflow."""
    dense, sparse = _close(_dense(walk)), _close(_sparse(walk))
    head = Instruction(
        Op.READB,
        offset=pagesize_version(walk.schema.page_size),
        count=walk.needed,
        attr=len(walk.schema.columns),
        flag=int(walk.visibility == "all"),
        keep=int(walk.policy.saturates),
        test=int(walk.policy.skips),
        use=int(walk.policy.passes),
    )
    return [head, Instruction(Op.BENTR, offset=2 + len(dense)), *dense, *sparse]


def port_config(
    walk: WalkConfig,
    bus_bytes: int,
    *,
    striders: int = 1,
    buffers: int = 2,
    slots: int = 4,
    lean: bool = False,
    latency: int = 4,
    ring: int = 0,
) -> PortConfig:
    """Return the parameters of a port that can run this walk's program (`lean`: this program alone)."""
    program = generate(walk)
    return PortConfig(
        page_size=walk.schema.page_size,
        bus_bytes=bus_bytes,
        lanes=walk.layout.lanes,
        beats=walk.layout.beats,
        format=walk.format,
        types=walk.types or ("float4",),
        striders=striders,
        buffers=buffers,
        slots=slots,
        program_depth=max(4, len(program)),
        latency=latency,
        program=tuple(int(word) for word in encode(program)) if lean else None,
        integers=walk.layout.integers,
        ring=ring,
    )
