"""Streams from disk to result, judged by SimPy: processes, buffers and floats, where the model has a formula and integers."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import simpy

import penstock as ps
from penstock.models.feed import Decoded, Engine, Stage, arrivals, passage, run_seconds
from penstock.models.link.envelope import write_cycles
from penstock.models.link.kinds import parse_link
from penstock.models.resources import Resources
from penstock.models.target import Link
from penstock.runs.accounts import machine_of


def simulated(stages: list[Any], chunks: int, share: Fraction) -> list[float]:
    """Return when each stage is done with the last chunk, in ns."""
    env = simpy.Environment()
    ways = [simpy.Store(env) for _ in stages]
    room = [simpy.Container(env, init=s.buffers) if s.buffers else None for s in stages[:-1]]
    room.append(None)
    ends = [0.0] * len(stages)
    parts = [float(share)] * (chunks - 1) + [float(1 - (chunks - 1) * share)]

    def work(s: int, stage: Any) -> Any:
        for k, part in enumerate(parts):
            if s:
                yield ways[s].get()
            if room[s] is not None:
                yield room[s].get(1)
            if isinstance(stage, Engine):
                mhz = float(stage.clock_hz) / 1e6
                # the edge at which a chunk is there; floats fall beside it
                cycle = -int(-(env.now * mhz / 1e3 - 1e-6) // 1)
                yield env.timeout(max(stage.serve(k, cycle) / mhz * 1e3 - env.now, 0))
            else:
                begun = k == 0 if stage.burst == 0 else not k % stage.burst
                yield env.timeout(1e9 * float(stage.latency) * begun)
                yield env.timeout(1e9 * float(stage.amount) * part / float(stage.rate))
            ends[s] = env.now
            if s and room[s - 1] is not None:
                yield room[s - 1].put(1)
            if s + 1 < len(stages):
                yield ways[s + 1].put(k)

    for s, stage in enumerate(stages):
        env.process(work(s, stage))
    env.run()
    return ends


def drawn(rng: random.Random, engine: bool) -> tuple[list[Any], int, Fraction]:
    """Return stages, chunks and the share of a chunk."""
    chunks = rng.choice([1, 2, 3, rng.randint(4, 60), rng.randint(60, 300)])
    rate = rng.randint(10, 1000)
    stages: list[Any] = [
        Stage(
            f"s{k}",
            rng.choice([0, rng.randint(1, 10**6)]) if k else rng.randint(1, 10**6),
            # many close to each other: a queue takes long to fill
            Fraction(rng.choice([rate, rate + 1, rng.randint(1, 10**4)]) * 1000, rng.randint(1, 3)),
            Fraction(rng.choice([0, 0, rng.randint(1, 10**5)]), 10**8),
            rng.choice([0, 0, 1, 2, 3, 5]),
            rng.choice([None, 1, 1, 2, 2, 3, 7]),
        )
        for k in range(rng.randint(1, 5))
    ]
    if engine:
        work = [rng.randint(0, 3000) for _ in range(chunks)]
        free = [0]

        def serve(k: int, cycle: int) -> int:
            if k == 0:
                free[0] = 0
            free[0] = max(free[0], cycle) + work[k]
            return free[0]

        stages.insert(
            rng.randint(1, len(stages)),
            Engine("engine", rng.choice([50, 150, 250]) * 10**6, serve, 2),
        )
    low, high = Fraction(1, chunks), Fraction(1, max(chunks - 1, 1))
    share = low + (high - low) * Fraction(rng.randint(0, 9), 10)
    return stages, chunks, share


@pytest.mark.parametrize("part", range(4))
def test_formula_is_simpys(part: int) -> None:
    """250 set-ups each, a quarter with an engine."""
    rng = random.Random(part)
    for number in range(250):
        stages, chunks, share = drawn(rng, number % 4 == 3)
        found = passage(stages, chunks, share)
        expected = simulated(stages, chunks, share)
        for stage, end, simpys in zip(stages, found, expected, strict=True):
            assert abs(float(end * 10**9) - simpys) < 1, (number, stage)
        assert found[-1] == max(found)


def test_the_slowest_stage_sets_the_pace() -> None:
    # with two buffers or more, the slowest stage takes every chunk, all others one
    stages = [Stage(f"s{k}", 10**7, rate, 0, 0, 2 + k) for k, rate in enumerate((901, 900, 902))]
    chunks = 10**4
    times = [Fraction(10**7, chunks * rate) for rate in (901, 900, 902)]
    assert passage(stages, chunks)[-1] == sum(times) + (chunks - 1) * max(times)
    # a single buffer: the pair that can't work side by side does
    stages = [Stage("a", 10**7, 5, 0, 0, 1), Stage("b", 10**7, 7), Stage("c", 10**7, 9)]
    times = [Fraction(10**7, chunks * rate) for rate in (5, 7, 9)]
    total = sum(times) + (chunks - 1) * (times[0] + times[1])
    assert passage(stages, chunks)[-1] == total


def test_arrivals_are_what_an_engine_gets() -> None:
    stages = [Stage("disk", 700, 100, Fraction(1, 10)), Stage("link", 700, 70, Fraction(1, 100), 1)]
    seen: list[int] = []

    def serve(k: int, cycle: int) -> int:
        seen.append(cycle)
        return cycle

    passage([*stages, Engine("engine", 1000, serve)], 7)
    assert seen == [-(-at * 1000 // 1) for at in arrivals(stages, 7)]
    assert seen[0] == 100 + 1000 + 10 + 1429 and len(seen) == 7


def test_runs() -> None:
    """A run by hand: 4 MB at 1 MB a chunk over 8 Gb/s, 10 us each; the disk at half of that."""
    link, disk = parse_link("gbps=8,latency=10us"), parse_link("gbps=4")
    mib = 1 << 20
    chunk, us = Fraction(mib, 10**9), Fraction(1, 10**6)
    more: dict[str, Any] = {"link": link, "evidence": "placed"}
    warm = run_seconds(25_000, 250, 4 * mib, 1000, **more)
    assert (warm.link, warm.engine, warm.results) == (4 * chunk + 40 * us, 100 * us, 11 * us)
    assert warm.disk is None and warm.total == sum(warm.streams.values()) and warm.binds == "link"
    cold = run_seconds(25_000, 250, 4 * mib, 1000, disk=disk, **more)
    assert cold.total == 8 * chunk + chunk + 10 * us + 111 * us and cold.binds == "disk"
    bare = run_seconds(25_000, 250, 4 * mib, 1000, decoded=Decoded(100, 1000, 1000), **more)
    assert (bare.host, bare.link) == (Fraction(1, 10), us + 40 * us)
    assert bare.total == Fraction(1, 10) + us / 4 + 10 * us + 111 * us
    assert run_seconds(25_000, 250, 0, 0, **more).total == 100 * us
    assert run_seconds(25_000, 250, 99, 99).total == 100 * us
    assert cold.to_json() | {"total": 0} == {
        "disk": float(8 * chunk),
        "link": float(4 * chunk + 40 * us),
        "engine": 1e-4,
        "results": 1.1e-5,
        "total": 0,
        "clock_mhz": 250.0,
        "clock_evidence": "placed",
    }
    # a ring: two epochs pass the link twice, and the engine's work hides behind it
    ring = run_seconds(
        20_000, 250, 4 * mib, 1000, serve=lambda k, cycle: cycle + 2500, epochs=2, **more
    )
    assert ring.link == 8 * (chunk + 10 * us) and ring.total == ring.link + 21 * us
    slow = run_seconds(
        8 * 10**6, 250, 4 * mib, 0, serve=lambda k, c: c + 10**6, epochs=2, slots=1, **more
    )
    # one slot: the link waits until a chunk has been read
    assert slow.total == 8 * (chunk + 10 * us + Fraction(4, 1000)) and slow.binds == "engine"
    # a table of more than 2^16 chunks goes in larger ones
    large = run_seconds(0, 250, mib << 20, 0, **more)
    assert large.total == large.link == mib * chunk + (1 << 16) * 10 * us


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("uart", 90_086),
        ("uart,baud=115200", 10_378),
        ("udp", 114_901_257),
        ("xdma", 12_000_000_000),
        ("xdma,latency=2us", 12_000_000_000),
        ("gbps=8,latency=10us", 1_000_000_000),
    ],
)
def test_links(text: str, rate: int) -> None:
    assert round(parse_link(text).bytes_per_s) == rate


def test_a_device_takes_one_datagram_after_the_other() -> None:
    """At the clock of a board its end is slower than the line; at that of a large part it is not."""
    line = parse_link("udp")
    board = line.into(25 * 10**6, 8)
    assert (
        board.bytes_per_s == Fraction(25 * 10**6 * 1024, write_cycles(1024, 8)) < line.bytes_per_s
    )
    assert board.seconds(1024) == Fraction(write_cycles(1024, 8), 25 * 10**6)
    assert line.into(60 * 10**6, 8).bytes_per_s == line.bytes_per_s
    for other in ("uart", "xdma", "gbps=1"):
        assert parse_link(other).into(10**6, 8) == parse_link(other)
    part = replace(ps.target("ulx3s-25f"), link=Link(kind="udp"), board=None)
    machine = machine_of(part, Resources(0, 0, 0, 0))
    assert machine.link == machine_of(part, Resources(0, 0, 0, 0), "udp").link
    assert machine.link == line.into(Fraction(str(part.clock.mhz)) * 10**6, part.bus_bytes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo", "there is no link 'foo'; known are uart, udp, xdma, and gbps=8,latency=10us"),
        ("", "there is no link ''; known are uart, udp, xdma, and gbps=8,latency=10us"),
        ("latency=1us", "a link needs a rate, which 'latency=1us' does not say; as in gbps=8"),
        ("gbps=1,gbps=2", "'gbps' is given twice in 'gbps=1,gbps=2'; leave one out"),
        (
            "uart,gbps=1",
            "cannot read 'gbps=1' in 'uart,gbps=1'; it takes baud, as in uart,baud=1000000",
        ),
        ("gbps=8,,", "cannot read '' in 'gbps=8,,'; it takes gbps and latency, as in gbps=8"),
        (
            "gbps=8,latency=10",
            "latency must be a time, not '10'; as in latency=10us (s, ms, us, ns)",
        ),
        ("gbps=0", "gbps must be a number above 0, not '0'; as in gbps=8"),
        ("xdma,gbps=-1", "gbps must be a number above 0, not '-1'; as in xdma,gbps=8"),
    ],
)
def test_links_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_link(text)
    assert str(caught.value) == said


def test_uart_frames_are_those_of_the_link() -> None:
    """The rate is that of random bytes; a table's own are counted."""
    from penstock.models.link.kinds import wire_bytes

    data = random.Random(1).randbytes(128 * 4000)
    link = parse_link("uart")
    assert abs(wire_bytes(data) / len(data) * link.payload / link.frame - 1) < 1e-3
    assert link.registers * link.rate == 20 * 27  # a write of 4 bytes, and its answer
    assert wire_bytes(bytes(128)) == 141 and wire_bytes(b"\x7e" * 128) >= 269
