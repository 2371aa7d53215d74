"""How likely each of a map's bounds is to be exceeded: the failure budget.

The tails are models, not theorems (`ASSUMPTIONS`). All probabilities are given as log2.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import e, log2, sqrt

from .config import OmapConfig
from .crowding import both_hold

#: log2 of the operations of a lifetime, and of the probability that any of them fails
LIFETIME, BUDGET = 40, -80
_NEVER = -100_000.0

ASSUMPTIONS = (
    "loads: the two bins of an operation as they are, all others as their mean (mean field of two choices)",
    "items leave in uniform order; for an order of the client's there is no theorem that the bound is so low",
    "a new entry has a new hash; keys that come again have the buckets that they had",
    "HBM's frames: Gaussian tails with twice the variance of independent bins",
)


def shares(load: float, most: int) -> list[float]:
    """Return log2 of the share of bins with at least i items, for i from 0 to `most`.

    The steady state of two choices with uniform departures:
    s[i-1]^2 - s[i]^2 = i (s[i] - s[i+1]) / load, from i = 1 on, with s[0] = 1 and s falling to 0.
    """
    logs = list(_solved(load))
    while len(logs) <= most:  # the rest of the sum vanishes beside its first term
        logs.append(max(log2(load / len(logs)) + 2 * logs[-1], _NEVER))
    return logs[: most + 1]


@lru_cache(maxsize=4096)
def _solved(load: float) -> tuple[float, ...]:
    """Return the shares up to one that is nearly nothing."""
    top = max(int(load) + 2, 3)
    while True:
        values = _downwards(load, top)
        if values[top] < 2.0**-200 or top >= int(load) + 40:
            return tuple(log2(value) if value > 0 else _NEVER for value in values)
        top += 1


def _downwards(load: float, top: int) -> list[float]:
    """Return the shares where that above `top` is 0: the last one is the one that makes the first 1."""

    def chain(last: float) -> list[float]:
        values = [0.0] * (top + 2)
        values[top] = last
        for i in range(top, 0, -1):
            step = i * (values[i] - values[i + 1]) / load
            values[i - 1] = min(sqrt(values[i] ** 2 + step), 4.0)
        return values

    low, high = -1060.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if chain(2.0**middle)[0] < 1.0:
            low = middle
        else:
            high = middle
    return chain(2.0**high)[: top + 1]


@lru_cache(maxsize=4096)
def two_choice_tail(load: float, slots: int) -> float:
    """Return log2 of the probability that both choices of an operation hold `slots` items, if bins are
    without number: no bound for those that there are (`full_tail`)."""
    return 2 * shares(load, slots)[slots] if load > 0 else _NEVER


def pair_of_bins(bins: int) -> float:
    """Return the probability that an operation draws two given bins: pairs are uniform and distinct."""
    return 2 / (bins * (bins - 1))


def pair_of_buckets(buckets: int) -> float:
    """Return the probability that a key has two given buckets, one of each half."""
    return 4 / buckets**2


@lru_cache(maxsize=4096)
def full_tail(capacity: int, bins: int, pair: float, slots: int) -> float:
    """Return log2 of the probability that both choices of an operation hold `slots` items in a map that is
    full. `pair`: probability that they are two given ones.

    Never, where `capacity` - 1 other items do not fill both.
    """
    if 2 * slots >= capacity:
        return _NEVER
    load = capacity / bins
    top = -(-max(slots, int(load) + 2) // 8) * 8
    held = both_hold(load, bins, pair, shares(load, top + 2))[slots]
    return min(max(held, two_choice_tail(load, slots)), 0.0)


def _gauss(distance: float) -> float:
    """Return log2 of an upper bound of the Gaussian tail beyond `distance` deviations."""
    if distance <= 0:
        return 0.0
    return max(-(distance**2) / 2 * log2(e), _NEVER)


def frame_statistics(config: OmapConfig) -> tuple[float, float]:
    """Return mean and deviation of the frames in use: the items of HBM's bins, and half an item a
    page that waits (an item comes with each operation to one of the bins, and two of them are emptied)."""
    mean = config.hbm_bins * config.load + config.host_bins / 2
    # a waiting queue is geometric with ratio 1/3 (variance 3/4); loads vary less than Poisson's
    variance = config.hbm_bins * min(config.load, 4.0) + config.host_bins * 0.75
    return mean, sqrt(2 * variance)


def frames_needed(config_mean: float, deviation: float, log_probability: float) -> int:
    """Return frames that suffice but for that probability an operation."""
    return int(config_mean + deviation * gauss_distance(log_probability)) + 2


def gauss_distance(log_probability: float) -> float:
    """Return how many deviations a Gaussian exceeds with at most that probability (log2)."""
    return sqrt(-2 * log_probability / log2(e))


@dataclass(frozen=True)
class Failure:
    """A bound: its name, and log2 of the probability that an operation, and that a lifetime, exceeds
    it."""

    name: str
    operation: float

    @property
    def lifetime(self) -> float:
        return min(self.operation + LIFETIME, 0.0)


def failures(config: OmapConfig) -> tuple[Failure, ...]:
    """Return all bounds of a map. Bins in HBM have no bound of their own."""
    mean, deviation = frame_statistics(config)
    most = min(config.frames - 2, config.capacity)
    spare = 0.0 if config.frames - 2 < config.capacity else _NEVER
    frames = spare if spare else _gauss((most - mean) / deviation)
    page = full_tail(config.capacity, config.bins, pair_of_bins(config.bins), config.slots)
    bucket = full_tail(
        config.capacity, config.buckets, pair_of_buckets(config.buckets), config.bucket_slots
    )
    return (
        Failure("a page is full", page),
        Failure("a bucket of the position map is full", bucket),
        Failure("HBM has no frame left", frames),
        Failure("a forged tag fits", -128 + 2.0),
    )


def collision(config: OmapConfig) -> float:
    """Return log2 of a bound of the probability that two of a full map's keys have one hash of 128 bits: N² / 2¹²⁹.
    It does not count for the budget: it does not grow with the operations."""
    return 2 * log2(config.capacity) - 129


def total(config: OmapConfig) -> float:
    """Return log2 of the probability that a lifetime exceeds any bound. A forgery needs a forger and
    ends the run anyway: it does not count."""
    logs = [f.lifetime for f in failures(config)[:3]]
    best = max(logs)
    return min(best + log2(sum(2.0 ** max(x - best, -1000) for x in logs)), 0.0)
