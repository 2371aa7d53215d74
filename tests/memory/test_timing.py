"""models/memory/timing.py: the options' text and the recurrences against a cycle-by-cycle walk."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.memory import FixedLatency, burst_count, parse_memory, split


def test_options():
    assert parse_memory("latency=7,bytes=16") == FixedLatency(7, 16)
    assert parse_memory(" bytes = 4 ") == FixedLatency(20, 4)
    assert parse_memory(str(FixedLatency(3, 5))) == FixedLatency(3, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "latency",
            "cannot read memory option 'latency' in 'latency'; expected latency=CYCLES,bytes=BYTES_PER_CYCLE",
        ),
        ("", "cannot read memory option '' in ''; expected latency=CYCLES,bytes=BYTES_PER_CYCLE"),
        (
            "speed=4",
            "cannot read memory option 'speed=4' in 'speed=4'; expected latency=CYCLES,bytes=BYTES_PER_CYCLE",
        ),
        ("latency=1,latency=2", "memory option 'latency' is given twice in 'latency=1,latency=2'"),
        ("bytes=-4", "memory bytes must be a whole number, not '-4'"),
        ("bytes=1e3", "memory bytes must be a whole number, not '1e3'"),
        ("latency=0", "memory latency must be an integer from 1 to 1000000, not 0"),
        ("bytes=0", "memory bytes_per_cycle must be an integer from 1 to 4096, not 0"),
    ],
)
def test_bad_options(text, message):
    with pytest.raises(ValueError) as caught:
        parse_memory(text)
    assert str(caught.value) == message


def walk(latency, interval, bursts, ready):
    """The rules cycle by cycle; `ready` is the consumer's RREADY in each cycle. Returns the transfer cycle of every beat."""
    beats = [ar + latency for ar, count in bursts for _ in range(count)]
    taken, free, cycle = [], 0, 0
    while len(taken) < len(beats):
        if cycle >= max(beats[len(taken)], free) and ready[cycle % len(ready)]:
            taken.append(cycle)
            free = cycle + interval
        cycle += 1
    return taken


@pytest.mark.parametrize("seed", range(20))
def test_reads(seed):
    rng = np.random.default_rng(seed)
    memory = FixedLatency(int(rng.integers(1, 30)), int(rng.integers(1, 20)))
    interval = memory.interval(8)
    ar = np.cumsum(rng.integers(1, 20, 30))
    beats = rng.integers(1, 17, 30)
    bursts = list(zip(ar.tolist(), beats.tolist(), strict=True))
    taken = walk(memory.latency, interval, bursts, [1])
    ends = np.cumsum(beats)
    port = memory.port(8)
    assert [port.read(*burst) for burst in bursts] == [
        (taken[end - count], taken[end - 1]) for end, count in zip(ends, beats, strict=True)
    ]

    ready = [*rng.integers(0, 2, 101).tolist(), 1]
    taken = walk(memory.latency, interval, bursts, ready)
    port = memory.port(8)
    for burst in bursts:
        port.address(*burst)
    for cycle in taken:
        offer = port.offer()
        assert offer <= cycle and not any(ready[k % len(ready)] for k in range(offer, cycle))
        assert port.accept(cycle) == cycle

    one, other = memory.port(8), memory.port(8)
    for burst in bursts:
        one.address(*burst)
        other.address(*burst)
    for at, count in bursts:  # a burst at once, for a consumer that comes late
        late = at + int(rng.integers(0, 60))
        each = [one.accept(late) for _ in range(count)]
        assert other.drain(count, late) == (each[0], each[-1])


@pytest.mark.parametrize("bus_bytes", [4, 8, 16, 64, 128])
def test_split(bus_bytes):
    rng = np.random.default_rng(bus_bytes)
    for _ in range(300):
        address = int(rng.integers(0, 4096)) * bus_bytes
        beats = int(rng.integers(1, 3000 // bus_bytes + 300))
        bursts = split(address, beats, bus_bytes)
        assert len(bursts) == burst_count(address, beats, bus_bytes)
        for start, length in bursts:
            assert start == address and 1 <= length <= 256
            assert start // 4096 == (start + length * bus_bytes - 1) // 4096
            address += length * bus_bytes
            beats -= length
        assert beats == 0
