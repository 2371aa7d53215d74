"""Chooses a map's load, share in HBM, slots, cipher cores and ports' widths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf
from typing import Any

from ..memory import Memory
from ..memory.dram.memory import Dram
from ..resources import AIM
from ..target import Target
from .back import BackSchedule
from .boundary import Frames
from .config import (
    BLOCK,
    KEYS,
    MOST_CYCLES,
    MOST_ITEMS,
    Access,
    Cores,
    OmapConfig,
    power_of_two,
)
from .front_schedule import FrontSchedule
from .hbm import Serve, paced
from .pairs import expected_blocks
from .resources import estimate
from .session_stages import pace
from .stages import sealed
from .tails import (
    BUDGET,
    LIFETIME,
    frame_statistics,
    frames_needed,
    full_tail,
    pair_of_bins,
    pair_of_buckets,
    total,
    two_choice_tail,
)

#: mean loads that are tried
LOADS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
#: steps of a load between those of `LOADS`, for each item of it
_FINE = 64
#: cycles of refresh and bank conflicts that the deadline adds to a port's latency
MARGIN = 8
#: accesses of a port that may be under way in one bank of DRAM
_CONFLICTS = 16
#: what an operation may fail with, as log2: a quarter of the budget for each of three bounds
_OPERATION = BUDGET - LIFETIME - 2
#: share of their time in which the cores that draw pairs are planned to be busy
_BUSY = 0.8
#: share of the bins in HBM where no size of HBM is given: the published system's
_SHARE = 0.2
#: what a page and a bucket hold at most
_SLOTS = 64
#: bytes of a word of the host's ports, unless they are too few
_PORT = 32
#: slots of a bucket that are scanned in no more time than the published system's; entries a bucket, mean, of
#: which the most is taken that needs no more slots
_BUCKET, _ENTRIES = 16, (8, 4, 2, 1)


class NoPlan(ValueError):
    """There is no map of this size. `hint` says what to change."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class _Asked:
    capacity: int
    value_bytes: int
    key: str
    bus_bytes: int
    deadline: int
    window: int | None
    trip: int
    rounds: int
    beat_cycles: int
    openers: int | None
    sealers: int | None
    widest: int
    bucket: int
    dealt: int
    frames_dealt: int
    channel_bytes: float


def _deadline(memory: Memory, bus_bytes: int) -> int:
    """Return the cycles in which every access to HBM is answered, whatever it meets there. Raises NoPlan."""
    longest = 64  # bus words of one access at most
    cycles = memory.latency + MARGIN + (memory.interval(bus_bytes) - 1) * longest
    if isinstance(memory, Dram):
        # a refresh, and rows of one bank that are opened one after another
        timing = memory.timing
        held_up = timing["nRFC"] + timing["nRP"] + _CONFLICTS * timing["nRC"]
        cycles += -(-held_up * memory.ratio.numerator // memory.ratio.denominator)
    if cycles > MOST_CYCLES:
        what = f"memory that answers after {cycles:,} cycles is too slow for a map: it waits {MOST_CYCLES:,}"
        raise NoPlan(what, "name other memory (--memory)")
    return cycles


def _slots(capacity: int, bins: int, pair: float) -> int:
    """Return the slots that suffice, but no more than `_SLOTS`."""
    load = capacity / bins
    slots = max(int(load), 1)
    # what falls short with bins without number falls short with these
    while 2 * slots < capacity and two_choice_tail(load, slots) > _OPERATION:
        slots += 1
    while slots < _SLOTS and full_tail(capacity, bins, pair, slots) > _OPERATION:
        slots += 1
    return min(slots, _SLOTS)


def _slots_of(asked: _Asked, load: float) -> int:
    """Return the slots of a page in a map of this mean load."""
    bins = max(int(-(-asked.capacity // load)), 2)
    return _slots(asked.capacity, bins, pair_of_bins(bins))


@lru_cache(maxsize=256)
def _position_map(capacity: int, unit: int, most: int) -> tuple[int, int]:
    """Return buckets and their slots, a multiple of `unit`, `most` where so few suffice."""
    shapes = []
    for entries in _ENTRIES:
        buckets = max(power_of_two(-(-capacity // entries)), 2)
        slots = _slots(capacity, buckets, pair_of_buckets(buckets))
        shapes.append((-(-slots // unit) * unit, buckets))
        if shapes[-1][0] <= most:
            break
    slots, buckets = min(shapes)
    return buckets, slots


def _config(
    asked: _Asked,
    load: float,
    hbm_bins: int | None,
    share: float = 0.0,
    slots: int | None = None,
) -> OmapConfig:
    """Return the map of a load. `slots`: of a page; those that keep the budget unless given."""
    bins = max(int(-(-asked.capacity // load)), 2)
    hbm = min(round(share * bins) if hbm_bins is None else hbm_bins, bins - 1)
    slots = _slots_of(asked, load) if slots is None else slots
    unit = max(asked.bus_bytes // 16, 1)
    buckets, bucket_slots = _position_map(asked.capacity, unit, asked.bucket)
    config = OmapConfig(
        capacity=asked.capacity,
        value_bytes=asked.value_bytes,
        key=asked.key,
        bins=bins,
        hbm_bins=hbm,
        slots=slots,
        buckets=buckets,
        bucket_slots=bucket_slots,
        frames=min(asked.capacity + 2, MOST_ITEMS),
        window=asked.window or 32,
        cores=Cores(rounds=asked.rounds),
        access=Access(
            deadline=asked.deadline,
            beat_cycles=asked.beat_cycles,
            dealt=asked.dealt,
            frames_dealt=asked.frames_dealt,
        ),
        bus_bytes=asked.bus_bytes,
        host_bus_bytes=min(asked.widest, _PORT),
    )
    frames = min(frames_needed(*frame_statistics(config), _OPERATION), config.frames)
    return _chunked(replace(config, frames=max(frames, 4)))


def _chunked(config: OmapConfig) -> OmapConfig:
    """Return the map with pieces of a page of at most 1 KiB."""
    if config.value_bytes <= 64:
        return config
    pieces = (n for n in range(1, 65) if config.page_blocks % n == 0)
    chunks = next((n for n in pieces if config.page_blocks // n <= 64), 1)
    return replace(config, chunks=chunks)


def _widened(config: OmapConfig, widest: int) -> OmapConfig:
    """Return the map with a port for pages and a merge that are as wide as they have to be, not to hold
    up what cannot be wider. `widest`: bytes of a word of the port, at most."""
    while True:
        front, back = FrontSchedule.of(config).interval, BackSchedule.of(config)
        port = _port(config)
        most = max(front, back.fetch, back.merge, port)
        wider = config
        if most == back.merge and 2 * config.merge_blocks * BLOCK <= config.bus_bytes:
            wider = replace(config, merge_blocks=2 * config.merge_blocks)
            if BackSchedule.of(wider).merge == back.merge:
                return config
        elif most == port and 2 * config.host_bus_bytes <= widest:
            wider = replace(config, host_bus_bytes=2 * config.host_bus_bytes)
        if wider is config:
            return config
        config = wider


def _cores(config: OmapConfig, asked: _Asked) -> OmapConfig:
    """As many cores and requests in flight as front and back can keep busy."""
    config = _widened(config, asked.widest)
    chunks = config.chunks
    interval = max(FrontSchedule.of(config).interval, BackSchedule.of(config).interval)
    page = sealed(0, chunks, config.chunk_blocks, config.sealing_pace) + 1
    message = pace(Frames.of(config))
    cores = min(max(power_of_two(ceil(2 * (1 - config.alpha) * page / interval)), 2), 64)
    # what an operation takes from its request to its merge
    latency = asked.trip + 4 * config.access.deadline + page + message + config.page_beats
    window = asked.window or min(max(power_of_two(ceil(latency / interval)), 8), 256)
    cores = min(cores, 2 * window)  # more would have no pages: an operation opens two
    turns = -(-message // interval)
    drawing = expected_blocks(config) * config.draw_cycles
    part = Cores(
        rounds=config.cores.rounds,
        openers=asked.openers or cores,
        sealers=asked.sealers or cores,
        responders=min(power_of_two(turns), window, 64),
        request_openers=min(power_of_two(turns), window),
        generators=min(ceil(drawing / interval / _BUSY), 16),
    )
    return replace(config, window=window, cores=part)


def plan(
    capacity: int,
    value_bytes: int,
    *,
    key: str = "u64",
    memory: Memory,
    bus_bytes: int = 32,
    hbm_bytes: int | None = None,
    load: float | None = None,
    share: float | None = None,
    window: int | None = None,
    trip: int = 315,
    rounds: int = 1,
    openers: int | None = None,
    sealers: int | None = None,
    widest: int = _PORT,
    bucket: int = _BUCKET,
    dealt: int = 1,
    frames_dealt: int = 0,
    channel_bytes: float = inf,
    serve: Serve | None = None,
) -> OmapConfig:
    """Return the map that moves the fewest host bytes an operation within the failure budget.

    Parameters: `key`: as `OmapConfig` has it; `memory`: timing of HBM's ports; `hbm_bytes`: what the map may take of
    HBM; the share of bins there follows from it, else it is `share` (0.2). `load`: mean items of a bin, else chosen:
    of `LOADS`, and with `hbm_bytes` of those between them too. `trip`: cycles of a page's way to the host and back,
    from which `window` follows if not given. `widest`: bytes of a word of the host's ports, at most; they have more
    than 32 only where pages hold up everything else. `bucket`: slots of a bucket, at most, where so few suffice.
    `dealt`: channels over which each port is dealt, `frames_dealt` those to frames, if others; `channel_bytes`: what each
    of them holds: one load is chosen for it, if any is right. `serve`: what tells DRAM's cycles, by which the pace is
    chosen (`models.omap.hbm`); else operations come as they may.
    Raises NoPlan where nothing fits, ValueError for values out of range.
    """
    _check(capacity)
    if KEYS.get(key) == BLOCK:  # an entry of the position map does not fit into a smaller word
        bus_bytes = max(bus_bytes, 2 * BLOCK)
    asked = _Asked(
        capacity=capacity,
        value_bytes=value_bytes,
        key=key,
        bus_bytes=bus_bytes,
        deadline=_deadline(memory, bus_bytes),
        window=window,
        trip=trip,
        rounds=rounds,
        beat_cycles=memory.interval(bus_bytes),
        openers=openers,
        sealers=sealers,
        widest=widest,
        bucket=bucket,
        dealt=dealt,
        frames_dealt=frames_dealt or dealt,
        channel_bytes=channel_bytes,
    )
    best = _best(asked, load, share, hbm_bytes)
    if best is None:
        raise _no_plan(capacity, hbm_bytes, load is not None or share is not None)
    return _cores(_paced(best, memory, serve), asked)


def _best(
    asked: _Asked, load: float | None, share: float | None, hbm_bytes: int | None
) -> OmapConfig | None:
    """Return the cheapest map of a load; without one that of `LOADS`, and with `hbm_bytes` of those between them. Where no
    channel holds any, what is needed is for the caller to say."""
    best: OmapConfig | None = None
    for each in LOADS if load is None else (load,):
        best = _better(asked, best, each, _SHARE if share is None else share, hbm_bytes)
    if hbm_bytes is not None and load is None:
        best = _finer(asked, best, hbm_bytes)
    if best is None and asked.channel_bytes < inf:
        return _best(replace(asked, channel_bytes=inf), load, share, hbm_bytes)
    return best


def _check(capacity: object) -> None:
    if (
        not isinstance(capacity, int)
        or isinstance(capacity, bool)
        or not 1 <= capacity <= MOST_ITEMS
    ):
        raise ValueError(f"capacity must be an integer from 1 to {MOST_ITEMS:,}, not {capacity!r}")


def _paced(config: OmapConfig, memory: Memory, serve: Serve | None) -> OmapConfig:
    """Return the map with the pace that its memory asks for, by one tail; `hbm.settled` looks at all."""
    if serve is None or not isinstance(memory, Dram):
        return config
    return paced(config, memory, serve, tails=1)


def _no_plan(capacity: int, hbm_bytes: int | None, chosen: bool) -> NoPlan:
    """`chosen`: load or share were not the planner's."""
    hint = "leave load and share out: they are chosen" if chosen else "give it less capacity"
    room = "" if hbm_bytes is None else f" in {hbm_bytes:,} bytes of HBM"
    return NoPlan(
        f"no map of {capacity:,} items{room} keeps the failure budget of 2^{BUDGET}",
        hint if hbm_bytes is None else "give it more HBM, or less capacity",
    )


def quickest(plans: Sequence[OmapConfig]) -> OmapConfig:
    """Return the plan whose operations follow each other soonest; of those that are within a
    sixteenth of it the first."""

    def interval(config: OmapConfig) -> float:
        back = BackSchedule.of(config)
        return max(FrontSchedule.of(config).interval, back.interval, _port(config))

    least = min(map(interval, plans))
    return next(config for config in plans if interval(config) <= least * 17 / 16)


def fitting(
    plans: Sequence[OmapConfig], part: Target, hbm_bytes: float = inf, aim: float = AIM
) -> OmapConfig | None:
    """Return the quickest plan that takes no more than the share `aim` of anything that the part has, else the quickest one that fits; None where none does."""
    held = [config for config in plans if config.hbm_bytes <= hbm_bytes]
    for fill in (aim, 1.0):
        able = [config for config in held if estimate(config, part).fits(part, fill) is None]
        if able:
            return quickest(able)
    return None


def largest(fits: Callable[[int], bool], capacity: int) -> int:
    """Return the largest capacity below one that does not fit for which `fits` holds, to four binary digits; 0 where there is none."""
    low = power_of_two(capacity) // 2
    while low and not fits(low):
        low //= 2
    for step in (low // 2, low // 4, low // 8):
        if step and low + step < capacity and fits(low + step):
            low += step
    return low


def _port(config: OmapConfig) -> float:
    """Return the cycles in which an operation's pages pass the port one way."""
    return 2 * (1 - config.alpha) * (config.page_beats + 1)


def _better(
    asked: _Asked, best: OmapConfig | None, load: float, share: float, hbm_bytes: int | None
) -> OmapConfig | None:
    """Return the cheaper one of a map and of the one of a mean load, where that fits."""
    if load > asked.capacity:
        return best
    config = _config(asked, load, None, share)
    if hbm_bytes is not None:
        config = _within(asked, load, hbm_bytes) or config
        if config.hbm_bytes > hbm_bytes:
            return best
    if config.channel_bytes > asked.channel_bytes or total(config) > BUDGET:
        return best
    return config if best is None or _cost(config) < _cost(best) else best


def _finer(asked: _Asked, best: OmapConfig | None, hbm_bytes: int) -> OmapConfig | None:
    """Return the cheapest map with a load between those of `LOADS`: for each number of slots the
    largest one, since fewer bins leave more of HBM to items.

    A share that is given is that of every load, so that slots alone count, and the least load has the
    fewest: nothing is finer there.
    """
    for low, high in pairwise(LOADS):
        for slots in range(_slots_of(asked, low), _slots_of(asked, high)):
            # at `high` so many slots are too few: no load below it can be cheaper
            bound = _within(asked, high, hbm_bytes, slots)
            if bound is not None and (best is None or _cost(bound)[0] < _cost(best)[0]):
                load = _largest(asked, low, high, slots)
                best = _better(asked, best, load, 0.0, hbm_bytes)
    return best


def _largest(asked: _Asked, low: float, high: float, slots: int) -> float:
    """Return the largest load, to a `_FINE`th, for which so many slots suffice: `low` or more, and
    less than `high`."""
    least, beyond = round(low * _FINE), round(high * _FINE)
    while beyond - least > 1:
        middle = (least + beyond) // 2
        bins = max(int(-(-asked.capacity // (middle / _FINE))), 2)
        if full_tail(asked.capacity, bins, pair_of_bins(bins), slots) <= _OPERATION:
            least = middle
        else:
            beyond = middle
    return least / _FINE


def _cost(config: OmapConfig) -> tuple[int, int]:
    """Host bytes an operation, then bytes of HBM."""
    return round(config.bytes_per_operation), config.hbm_bytes


def _within(
    asked: _Asked, load: float, hbm_bytes: int, slots: int | None = None
) -> OmapConfig | None:
    """Return the map with the largest share of bins in so much HBM. `slots`: as many as `_config`
    takes."""
    bins = max(int(-(-asked.capacity // load)), 2)
    low, high = -1, bins - 1
    best: OmapConfig | None = None
    while low < high:
        middle = (low + high + 1) // 2
        config = _config(asked, load, middle, slots=slots)
        if config.hbm_bytes <= hbm_bytes:
            low, best = middle, config
        else:
            high = middle - 1
    return best


def published(config: OmapConfig) -> dict[str, Any]:
    """Return what the published choice, 8 items a bin and a fifth of them in HBM, costs: slots and
    host bytes an operation."""
    slots = _slots(1 << 20, 1 << 17, pair_of_bins(1 << 17))
    page = (slots * config.slot_blocks + config.chunks) * BLOCK
    return {"load": 8.0, "share": 0.2, "slots": slots, "bytes": 2 * 0.8 * page}
