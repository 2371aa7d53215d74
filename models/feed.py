"""From disk to result: seconds of the streams that feed an engine, and which of them binds.

A table passes through stages (disk, host, link, an engine with a ring, results) in chunks, each stage in order:

    start(s, k) = max(end(s, k−1), end(s−1, k), end(s+1, k − buffers(s)))      end = start + amount ÷ rate

with a stage's latency once a burst. All of it is exact. Times are whole ticks of 1/D s, where D is the least common multiple of
the denominators of all times: sums and maxima of integers, which neither round nor cost what fractions do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .link.kinds import Link

__all__ = [
    "CHUNK",
    "Decoded",
    "Engine",
    "Seconds",
    "Stage",
    "arrivals",
    "passage",
    "run_seconds",
]

#: bytes of a chunk, where nobody says: what a host's transfers usually are
CHUNK = 1 << 20
_Row = list[int]


@dataclass(frozen=True)
class Stage:
    """A stage of a constant rate. `amount`: of all that passes, in units; `rate`: units a second;
    `latency`: seconds, at the first of every `burst` chunks (0: all chunks are one burst);
    `buffers`: chunks that may lie behind it or be in the next stage (None: without end)."""

    name: str
    amount: Fraction | int
    rate: Fraction | int
    latency: Fraction | int = 0
    burst: int = 0
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


class _Line:
    """Stages and chunks in ticks. `share`: the part of everything that a full chunk is."""

    def __init__(
        self, stages: Sequence[Stage | Engine], chunks: int, share: Fraction | None
    ) -> None:
        share = Fraction(1, max(chunks, 1)) if share is None else share
        if not stages or chunks < 1:
            raise ValueError("a stream has a stage and a chunk at least")
        rest = 1 - (chunks - 1) * share
        if not 0 < rest <= share:
            raise ValueError(f"{chunks} chunks of {share} of all are not all of it")
        self.stages, self.chunks = stages, chunks
        times = []
        for stage in stages:
            if isinstance(stage, Engine):
                times.append((1 / Fraction(stage.clock_hz), Fraction(0), Fraction(0)))
            else:
                whole = Fraction(stage.amount) / stage.rate
                times.append((whole * share, whole * rest, Fraction(stage.latency)))
        self.per_second = math.lcm(*(part.denominator for row in times for part in row))
        self.times = [tuple(int(part * self.per_second) for part in row) for row in times]
        self.back = [stage.buffers for stage in stages[:-1]] + [None]

    def step(self, rows: list[_Row], k: int) -> _Row:
        """Return the ends of chunk k; `rows`: those of the chunks before it, as far as they count."""
        before = rows[-1] if rows else [0] * len(self.stages)
        row: _Row = []
        for s, stage in enumerate(self.stages):
            start = before[s]
            if s:
                start = max(start, row[s - 1])
            back = self.back[s]
            if back is not None and back <= k:
                start = max(start, rows[-back][s + 1])
            full, last, latency = self.times[s]
            if isinstance(stage, Engine):
                row.append(stage.serve(k, -(-start // full)) * full)
                if row[-1] < start:
                    raise ValueError(f"{stage.name} is done with chunk {k} before it is there")
            else:
                begins = k % stage.burst == 0 if stage.burst else k == 0
                row.append(start + (last if k == self.chunks - 1 else full) + latency * begins)
        return row

    def rows(self, leap: bool) -> Iterator[_Row]:
        """Yield the ends of each chunk. With `leap`, chunks whose ends follow from those before
        them are left out; the last one never is."""
        leap = leap and not any(isinstance(stage, Engine) for stage in self.stages)
        period = math.lcm(
            1, *(s.burst for s in self.stages if isinstance(s, Stage) and s.burst and s.latency)
        )
        deepest = max([1, *(back for back in self.back if back is not None)])
        window = deepest + period
        rows: list[_Row] = []
        k, look = 0, window + period + 1
        while k < self.chunks:
            rows.append(self.step(rows, k))
            yield rows[-1]
            k += 1
            if leap and k > look:
                count = self._periods(rows, k, period, window)
                if count:
                    gain = [b - a for a, b in zip(rows[-1 - period], rows[-1], strict=True)]
                    rows = [
                        [end + count * g for end, g in zip(row, gain, strict=True)]
                        for row in rows[-window:]
                    ]
                    k += count * period
                    look = k + period + 1
                look = max(look, k + window)
            if len(rows) > 4 * (window + period):
                del rows[: -2 * (window + period)]

    def _periods(self, rows: list[_Row], k: int, period: int, window: int) -> int:
        """Return for how many periods from chunk k on every end is that of a period before, and as
        much later as in the period before; 0 where that cannot be said.

        It can where it held throughout the window, as then each of the three terms of a start grows
        by the same in each period: until one that grows faster overtakes.
        """
        if len(rows) < window + period:
            return 0
        gain = [b - a for a, b in zip(rows[-1 - period], rows[-1], strict=True)]
        for at in range(-window, 0):
            if any(b - a != g for a, b, g in zip(rows[at - period], rows[at], gain, strict=True)):
                return 0
        count = (self.chunks - 1 - k) // period
        for phase in range(-period, 0):
            for s, own in enumerate(gain):
                terms = [(rows[phase - 1][s], own)]
                if s:
                    terms.append((rows[phase][s - 1], gain[s - 1]))
                back = self.back[s]
                if back is not None:
                    terms.append((rows[phase - back][s + 1], gain[s + 1]))
                start = max(end for end, _ in terms)
                if not any(end == start and grows == own for end, grows in terms):
                    return 0
                for end, grows in terms:
                    if grows > own:
                        count = min(count, (start - end) // (grows - own))
        return max(count, 0)


def passage(
    stages: Sequence[Stage | Engine],
    chunks: int,
    share: Fraction | None = None,
    *,
    leap: bool = True,
) -> tuple[Fraction, ...]:
    """Return in how many seconds each stage is done with the last of so many chunks.

    `share`: which part of everything a chunk is, where the last one is smaller than the others;
    `leap`: pass over what repeats itself. It changes nothing in what is returned. Raises ValueError.
    """
    line = _Line(stages, chunks, share)
    for row in line.rows(leap):
        last = row
    return tuple(Fraction(end, line.per_second) for end in last)


def arrivals(stages: Sequence[Stage], chunks: int, share: Fraction | None = None) -> list[Fraction]:
    """Return when each chunk has left the last stage: the arrivals of an engine that never makes
    the stages wait."""
    line = _Line(stages, chunks, share)
    return [Fraction(row[-1], line.per_second) for row in line.rows(False)]


@dataclass(frozen=True)
class Decoded:
    """Without Striders the host takes tuples out of pages: `rows` of them at `rows_per_s`, as our own
    decoder was measured, into `bytes` of values for the link."""

    rows: int
    rows_per_s: Fraction | int
    bytes: int


@dataclass(frozen=True)
class Seconds:
    """Where the time of a run goes. Streams: the seconds in which each of them works, None where there
    is none; `total`: from the start to the result. The engine's are exact, the rest are estimates."""

    engine: Fraction
    total: Fraction
    clock_mhz: Fraction
    clock_evidence: str
    disk: Fraction | None = None
    host: Fraction | None = None
    link: Fraction | None = None
    results: Fraction | None = None

    @property
    def streams(self) -> dict[str, Fraction]:
        """The streams there are, in order."""
        names = "disk", "host", "link", "engine", "results"
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def binds(self) -> str:
        """The stream that works longest."""
        streams = self.streams
        return max(streams, key=lambda name: streams[name])

    def to_json(self) -> dict[str, float | str]:
        """Return it as `seconds` of `--json` has it."""
        values: dict[str, float | str] = {k: float(value) for k, value in self.streams.items()}
        values |= {"total": float(self.total), "clock_mhz": float(self.clock_mhz)}
        return values | {"clock_evidence": self.clock_evidence}


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

    Parameters
    ----------
    cycles: of the engine, all epochs; with a ring, where it never waits.
    result_bytes: that go back over the link in the end.
    link: None where the engine's memory has the table anyway; `disk`: None where it is warm.
    serve: as of `Engine`; `slots`: chunks that the ring holds.
    """
    if min(cycles, count, result_bytes) < 0 or min(chunk, slots, epochs) < 1:
        raise ValueError(
            "bytes and cycles are not below 0; a chunk, a ring and a run have one at least"
        )
    clock, times = Fraction(str(clock_mhz)), epochs if serve else 1
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
    back = None if link is None else link.seconds(result_bytes, int(result_bytes > 0))
    total = done + (back or 0) + (0 if serve else engine)
    busy = {stage.name: stage.busy(chunks) for stage in stages}
    return Seconds(engine, total, clock, evidence, results=back, **busy)
