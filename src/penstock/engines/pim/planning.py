"""Which device runs recurrences: its banks, units, format and timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.dsl.core.diagnostics import error
from penstock.engines.base import Given
from penstock.models.pim.config import MOST_ROWS, Design, PimConfig
from penstock.models.pim.layout import Layout
from penstock.models.pim.resources import resources_of
from penstock.models.pim.timing import NAMES, ON_CHIP, timing_named
from penstock.models.resources import AIM
from penstock.models.target import Target
from penstock.passes.forms import Origin

from .options import SCHEDULES, misfit

if TYPE_CHECKING:
    from penstock.dsl.pim.recurrent import Recurrent

#: banks that are tried first: as a pseudo-channel of HBM2 has them; of block RAM; and on a part of fewer look-up tables than `_LARGE`
_BANKS, _ON_CHIP_BANKS, _FEW_BANKS = 16, 64, 2
_LARGE = 300_000
#: how often the number of banks is halved for a part that they fill
_HALVINGS = 5


def _unit(recurrent: Recurrent, args: Given) -> Design:
    """Return the kind of units. Raises E464 for one that cannot run the recurrence."""
    unit = Design.named(args.option("unit", "pimba"))
    reads = recurrent.mode != "update" or any(one.k is None for one in recurrent.passes)
    if reads and unit is not Design.PIMBA:
        what = "a state that it does not change" if recurrent.mode == "update" else "a cache"
        raise misfit(
            "unit", f"{recurrent.name} reads {what}, which units of the kind {unit.label} cannot"
        )
    return unit


def _stochastic(args: Given, chosen: str) -> bool:
    """Return whether new states of a format are rounded at random. Raises E464 for float16, which never is."""
    rounding = args.option("rounding", "stochastic" if chosen == "mx8" else "nearest")
    if rounding == "stochastic" and chosen != "mx8":
        raise misfit("rounding", "float16 is rounded to nearest")
    return bool(rounding == "stochastic")


def _bank_counts(part: Target, args: Given, sets: int, large: int) -> list[int]:
    """Return how many banks there may be: as asked, else as many as a part of its size takes (`large`), and fewer where they fill it.

    Raises E464 for a number that sets of bank groups cannot have.
    """
    banks: int | None = args.option("banks")
    if banks is None:
        most = max(2 * sets, _FEW_BANKS if part.lut < _LARGE else large)
        return [most >> n for n in range(_HALVINGS + 1) if most >> n >= 2 * sets]
    if banks.bit_count() != 1:
        hint = f"write --banks {1 << banks.bit_length() - 1} or {1 << banks.bit_length()}"
        raise misfit("banks", f"--banks {banks}: the number of banks is a power of two", hint)
    if banks < 2 * sets:
        what = f"{banks} banks cannot be {sets} sets of bank groups with an even number of banks"
        raise misfit("banks", what, f"write --banks {2 * sets} or a larger power of two")
    return [banks]


def _stripes(config: PimConfig, layers: Sequence[tuple[Recurrent, int]]) -> int:
    """Return over how many pairs of banks columns are dealt, so that a token takes the fewest rounds of all layers."""
    layouts = [Layout(config, *one.form, items, 1) for one, items in layers]
    chunks = [one.chunks for one in layouts if one.mode == "update"]

    def rounds(stripes: int) -> int:
        dealt = replace(config, stripes=stripes)
        return sum(replace(one, config=dealt).rows for one in layouts)

    even = [n for n in range(1, min(chunks, default=1) + 1) if not any(size % n for size in chunks)]
    return min(even, key=rounds)


def _check_pace(config: PimConfig) -> None:
    """Raise E464 where units are too slow for the timing of the banks."""
    if config.timing.name == ON_CHIP and config.refresh != "none":
        what = "block RAM is not refreshed"
        raise misfit("refresh", what)
    if reason := config.too_fast:
        fitting = [
            name
            for name in NAMES
            if not replace(config, timing=timing_named(name, config.format)).too_fast
        ]
        what = f"units of {config.format} are too slow for {config.timing.name}: {reason}"
        hint = f"--dram takes {', '.join(fitting)}" if fitting else "leave --dram out"
        raise misfit("dram", what, hint)


def _softened(config: PimConfig, scores: Sequence[Layout]) -> PimConfig:
    """Return a device with the softmax unit for caches of keys. Raises E464."""
    if config.sets > 1:
        hint = f"the softmax unit serves all banks together, not {config.sets} staggered sets"
        raise misfit("schedule", hint)
    items, parts = max(one.items for one in scores), {one.parts for one in scores}
    if len(parts) > 1:
        what = "the softmax unit adds as many parts of a score in all layers, and keys of different sizes have other numbers of them"
        raise misfit("dim", what, "give the keys of all layers one size")
    device = replace(config, soft_parts=parts.pop())
    if items > device.most_soft_items:
        what = f"the softmax unit keeps the scores of {device.most_soft_items:,} heads, not of {items:,}"
        raise misfit("heads", what, "take fewer heads or requests")
    return replace(device, soft_items=items)


def _chosen(
    devices: Sequence[tuple[PimConfig, int]], part: Target, aim: float, least: bool
) -> tuple[PimConfig, int]:
    """Return the first device, with the rows that it uses, that takes no more than the share `aim` of a part; if none does, the first that fits, or else
    the first of all. `least`: of those with no more units than it, the one that uses the fewest rows."""
    held = (
        (config, used)
        for fill in (aim, 1.0)
        for config, used in devices
        if used <= MOST_ROWS and resources_of(config, part).fits(part, fill) is None
    )
    choice = next(held, devices[0])
    if least:
        smaller = [one for one in devices if one[0].pairs <= choice[0].pairs]
        choice = min(smaller, key=lambda one: (one[1], one[0].pairs))
    return choice


def device_of(
    kernel: Origin,
    layers: Sequence[tuple[Recurrent, int]],
    part: Target,
    args: Given,
    chosen: str,
    attends: bool,
) -> PimConfig:
    """Return the device for `layers`, recurrences each with its heads (of all requests). Raises KernelError (E464).

    `kernel`: what messages point to; `chosen`: the name of the number format; `attends`: the device computes attention, and has a softmax unit.
    """
    [unit] = {_unit(one, args) for one, _ in layers}
    stochastic = _stochastic(args, chosen) and any(one.mode == "update" for one, _ in layers)
    sets, local = SCHEDULES[args.option("schedule", "together")]
    dram = args.option("dram", "pimba")
    on_chip = dram == ON_CHIP and not attends
    fast = on_chip and chosen == "mx8" and all(one.mode != "attend" for one, _ in layers)
    timing = timing_named(dram, chosen, fast)
    bus = 32 if dram == ON_CHIP and part.bus_bytes >= 32 else 8

    def device(banks: int) -> tuple[PimConfig, int]:
        groups = min(max(sets, banks // 4), 4 if banks <= 16 else 8)
        config = PimConfig(
            chosen,
            stochastic,
            groups,
            banks // groups,
            1,
            unit,
            sets,
            local,
            timing,
            args.option("refresh", "none"),
            bus=bus,
        )
        if on_chip:
            config = replace(config, stripes=_stripes(config, layers))
        placed = [Layout(config, *one.form, items, 1) for one, items in layers]
        used = sum(one.rows for one in placed)
        if attends:
            scores = [one for one in placed if one.mode == "score"]
            config = _softened(config, scores)
        return replace(config, rows=1 << max(0, min(used, MOST_ROWS) - 1).bit_length()), used

    counts = _bank_counts(part, args, sets, _ON_CHIP_BANKS if on_chip else _BANKS)
    devices = [device(count) for count in counts]
    config, used = _chosen(devices, part, args.option("fill", AIM), on_chip)
    if used > MOST_ROWS:
        what = f"the states of {layers[0][1]} heads take {used:,} rows of each bank; a bank has {MOST_ROWS:,}"
        hint = "take more banks, fewer heads or requests"
        raise error("E464", what, kernel.name_span, hint=hint, source=kernel.source)
    _check_pace(config)
    return config
