"""From disk to result: seconds of the streams that feed an engine, and which of them binds.

A table passes through stages (disk, host, link, an engine with a ring, results) in chunks, each stage in order:

    start(s, k) = max(end(s, k−1), end(s−1, k), end(s+1, k − buffers(s)))      end = start + amount ÷ rate

with a stage's latency once a burst. All of it is exact. Times are whole ticks of 1/D s, where D is the least common multiple of
the denominators of all times: sums and maxima of integers, which neither round nor cost what fractions do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .link.kinds import Link

#: bytes of a chunk, where nobody says: what a host's transfers usually are
CHUNK = 1 << 20
#: chunks of a run at most: those of a larger table are larger
_MOST = 1 << 16


@dataclass(frozen=True)
class Stage:
    """A stage of a constant rate."""

    name: str
    amount: Fraction | int  #: all that passes, in units
    rate: Fraction | int  #: units a second
    latency: Fraction | int = 0  #: seconds, at the first chunk of every burst
    burst: int = 0  #: chunks; 0: all are one burst
    #: chunks that may lie behind it or be in the next stage; None: without end
    buffers: int | None = 2

    def __post_init__(self) -> None:
        if self.rate <= 0 or min(self.amount, self.latency, self.burst) < 0:
            raise ValueError(
                f"{self.name}: a rate is above 0, amount, latency and burst are not below"
            )
        _check_buffers(self.name, self.buffers)

    @classmethod
    def over(cls, name: str, link: Link, count: int, burst: int = 0, buffers: int = 2) -> Stage:
        """Return the stage of a link that carries so many bytes."""
        return cls(name, count, link.bytes_per_s, link.latency, burst, buffers)

    def busy(self, chunks: int) -> Fraction:
        """Return the seconds in which it works, of so many chunks."""
        bursts = min(chunks, 1) if not self.burst else -(-chunks // self.burst)
        return Fraction(self.amount) / self.rate * bool(chunks) + bursts * Fraction(self.latency)


@dataclass(frozen=True)
class Engine:
    """An engine that reads chunks as they come. `serve(k, cycle)`: the cycle in which it is done with
    chunk k, which is there from `cycle` on; its own cycle 0 is the start of the stream."""

    name: str
    clock_hz: Fraction | int
    serve: Callable[[int, int], int]
    buffers: int | None = None

    def __post_init__(self) -> None:
        if self.clock_hz <= 0:
            raise ValueError(f"{self.name}: the clock must be above 0")
        _check_buffers(self.name, self.buffers)


def _check_buffers(name: str, buffers: int | None) -> None:
    if buffers is not None and buffers < 1:
        raise ValueError(f"{name}: there must be room for one chunk behind it")


def _ends(
    stages: Sequence[Stage | Engine], chunks: int, share: Fraction | None
) -> Iterator[tuple[list[int], int]]:
    """Yield when each stage is done with a chunk, in ticks, and how many of these a second has. `share`: the part of everything that a full chunk is."""
    share = Fraction(1, max(chunks, 1)) if share is None else share
    rest = 1 - (chunks - 1) * share
    if not stages or chunks < 1 or not 0 < rest <= share:
        raise ValueError(
            f"{chunks} chunks of {share} of all do not pass through {len(stages)} stages"
        )
    times = []
    for stage in stages:
        if isinstance(stage, Engine):
            times.append((1 / Fraction(stage.clock_hz), Fraction(0), Fraction(0)))
        else:
            period = Fraction(stage.amount) / stage.rate
            times.append((period * share, period * rest, Fraction(stage.latency)))
    per_second = math.lcm(*(part.denominator for row in times for part in row))
    ticks = [tuple(int(part * per_second) for part in row) for row in times]
    back = [stage.buffers for stage in stages[:-1]] + [None]
    rows = deque([[0] * len(stages)], max([1, *(room for room in back if room is not None)]))
    for k in range(chunks):
        row: list[int] = []
        for s, (stage, (full, last, latency)) in enumerate(zip(stages, ticks, strict=True)):
            room, start = back[s], max(rows[-1][s], row[s - 1] if s else 0)
            if room is not None and room <= k:
                start = max(start, rows[-room][s + 1])
            if isinstance(stage, Engine):
                row.append(stage.serve(k, -(-start // full)) * full)
                if row[-1] < start:
                    raise ValueError(f"{stage.name} is done with chunk {k} before it is there")
            else:
                begins = k % stage.burst == 0 if stage.burst else k == 0
                row.append(start + (last if k == chunks - 1 else full) + latency * begins)
        rows.append(row)
        yield row, per_second


def passage(
    stages: Sequence[Stage | Engine], chunks: int, share: Fraction | None = None
) -> tuple[Fraction, ...]:
    """Return in how many seconds each stage is done with the last of so many chunks.

    `share`: which part of everything a chunk is, where the last one is smaller than the others. Raises ValueError.
    """
    ((row, per_second),) = deque(_ends(stages, chunks, share), 1)
    return tuple(Fraction(end, per_second) for end in row)


def arrivals(stages: Sequence[Stage], chunks: int, share: Fraction | None = None) -> list[Fraction]:
    """Return when each chunk has left the last stage: the arrivals of an engine that never makes
    the stages wait."""
    return [Fraction(row[-1], per_second) for row, per_second in _ends(stages, chunks, share)]


@dataclass(frozen=True)
class Decoded:
    """What the host does without Striders: it takes tuples out of pages."""

    rows: int
    rows_per_s: Fraction | int  #: as our own decoder was measured to do
    bytes: int  #: bytes of values, for the link


@dataclass(frozen=True)
class Seconds:
    """Where the time of a run goes: the engine's seconds are exact, the others are estimates.

    The seconds of a stream are those in which it works, None where there is none.
    """

    engine: Fraction
    total: Fraction  #: from the start to the result
    clock_mhz: Fraction
    clock_evidence: str
    disk: Fraction | None = None
    host: Fraction | None = None
    link: Fraction | None = None
    results: Fraction | None = None
    waits: Fraction = Fraction(0)  #: seconds in which the engine waits for the link

    @property
    def streams(self) -> dict[str, Fraction]:
        """The streams there are, in order."""
        names = "disk", "host", "link", "engine", "results"
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def binds(self) -> str:
        """The stream that works longest."""
        streams = {**self.streams, "engine": self.engine - self.waits}
        return max(streams, key=lambda name: streams[name])

    def to_json(self) -> dict[str, float | str]:
        """Return it as `seconds` of `--json` has it."""
        values: dict[str, float | str] = {k: float(value) for k, value in self.streams.items()}
        values |= {"total": float(self.total), "clock_mhz": float(self.clock_mhz)}
        return values | {"clock_evidence": self.clock_evidence}


@lru_cache
def run_seconds(
    cycles: int,
    clock_mhz: Fraction | float | str,
    count: int,
    result_bytes: int,
    *,
    link: Link | None = None,
    disk: Link | None = None,
    decoded: Decoded | None = None,
    chunk: int = CHUNK,
    evidence: str = "stated",
    serve: Callable[[int, int], int] | None = None,
    slots: int = 2,
    epochs: int = 1,
) -> Seconds:
    """Return the seconds of a run on a table of `count` bytes.

    Without `serve` the engine starts when memory has the whole table. With it the table passes
    through a ring, once an epoch.

    * `cycles`: of the engine, all epochs; with a ring, where it never waits.
    * `result_bytes`: that go back over the link in the end.
    * `link`: None where the engine's memory has the table anyway (results count its registers); `disk`: None
      where it is warm.
    * `serve`: as of `Engine`; `slots`: chunks that the ring holds.
    """
    if min(cycles, count, result_bytes) < 0 or min(chunk, slots, epochs) < 1:
        raise ValueError(
            "bytes and cycles are not below 0; a chunk, a ring and a run have one at least"
        )
    clock, times = Fraction(str(clock_mhz)), epochs if serve else 1
    chunk = max(chunk, -(-count * times // _MOST))
    stages = [] if disk is None else [Stage.over("disk", disk, count * times)]
    if decoded is not None:
        stages.append(Stage("host", decoded.rows * times, decoded.rows_per_s))
    if link is not None:
        carried = count if decoded is None else decoded.bytes
        stages.append(Stage.over("link", link, carried * times, 1, slots))
    chunks = -(-count * times // chunk)
    line: list[Stage | Engine] = [*stages]
    if serve is not None:
        line.append(Engine("engine", clock * 10**6, serve))
    share = Fraction(chunk, count * times) if chunks > 1 else None
    done = passage(line, chunks, share)[-1] if line and chunks else Fraction(0)
    engine = cycles / (clock * 10**6)
    back = None
    if link is not None:
        back = link.seconds(result_bytes, int(result_bytes > 0)) + link.registers
    total = done + (back or 0) + (0 if serve else engine)
    busy = {stage.name: stage.busy(chunks) for stage in stages}
    return Seconds(engine, total, clock, evidence, results=back, **busy)
