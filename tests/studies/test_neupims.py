"""NeuPIMs: the scheduler's estimate, bins and halves, the six stages, and what Pimba drew of it."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from penstock_studies.neupims.drawn import parts_of
from penstock_studies.neupims.estimate import Channel, dealt, halves
from penstock_studies.neupims.stages import MODELS, Device
from penstock_studies.pimba import published


def test_estimate():
    """The example of the scheduler's formula, counted by hand, and its ceilings."""
    channel = Channel()
    assert channel.attention(512, 1024, 32, 128) == 32_840
    # 2 rows of the query, 17 tiles of keys; 2 rows of scores a head, 4 tiles of values
    more = 2 * 100 + 2 * 17 * 184 + 2 * 32 * 100 + 2 * 32 * 4 * 184
    assert channel.attention(513, 1024, 32, 128) == more
    with pytest.raises(ValueError, match="1 or more"):
        channel.attention(0, 1024, 32, 128)


def test_dealt():
    """Each request lies on one channel; no channel has more than another would have after its last request."""
    draw = random.Random(29)
    for _ in range(200):
        costs = [draw.randint(1, 1000) for _ in range(draw.randint(0, 60))]
        held = dealt(costs, channels := draw.randint(1, 9))
        assert sorted(chain(*held)) == list(range(len(costs))) and len(held) == channels
        loads = [sum(costs[request] for request in requests) for requests in held]
        for requests, load in zip(held, loads, strict=True):
            assert not requests or load - costs[requests[-1]] <= min(loads)
            assert [costs[r] for r in requests] == sorted(
                (costs[r] for r in requests), reverse=True
            )
        first, second = halves(held)
        assert [a + b for a, b in zip(first, second, strict=True)] == held
        sizes = [sum(map(len, half)) for half in (first, second)]
        assert sizes[0] - sizes[1] in (0, 1)  # the odd one in turns
        assert all(abs(len(a) - len(b)) < 2 for a, b in zip(first, second, strict=True))


def _simulated(stages, layers):
    """The cycles of stages that are walked through one by one: arrays and banks, each when both have ended."""
    a, b, c, d, e, f = stages
    now = 0
    for stage in (a, b, *(c, d) * (layers - 1), e, f):
        arrays, banks = now + stage.array_cycles, now + stage.bank_cycles
        now = max(arrays, banks)
    return now


def test_stages():
    """Every half passes every layer's attention once, and all products, whatever the split into stages."""
    draw = random.Random(1)
    device = Device()
    for _ in range(20):
        shape = MODELS[draw.choice(list(MODELS))]
        contexts = [draw.randint(1, 3000) for _ in range(draw.randint(2, 600))]
        took = device.times(shape, contexts)
        assert took.overlapped == _simulated(took.stages, shape.layers)
        a, b, c, d, e, f = took.stages
        assert c.array_cycles == a.array_cycles + e.array_cycles
        assert d.array_cycles == b.array_cycles + f.array_cycles
        assert (b.bank_cycles, c.bank_cycles) == (d.bank_cycles, e.bank_cycles)
        # no better than either side alone, no worse than one after the other
        both = [
            sum(x) for x in zip(*((s.array_cycles, s.bank_cycles) for s in (c, d)), strict=True)
        ]
        assert shape.layers * max(both) <= took.overlapped <= shape.layers * sum(both)
    with pytest.raises(ValueError, match="2 requests"):
        device.times(MODELS["gpt3-7b"], [5])


def test_product():
    """One tile; tiles that follow each other; weights that take longer to arrive than products."""
    device = Device()
    assert device.product(128, 128, 128) == 255 + 254 + 128
    assert device.product(512, 4096, 4096) == 255 + 127 * 512 + 254 + 512
    assert device.product(1, 4096, 4096) == 4096 * 4096 * 2 // 1024


def test_drawn():
    """Pimba's figure 15: with state updates at the banks and attention in turn, each bar is within 1 %; with state updates on a GPU the first cannot be."""
    for token, theirs in zip(
        published.NEUPIMS_TOKENS, published.NEUPIMS["NeuPIMs"][0], strict=True
    ):
        made = parts_of("zamba2-70b", 128, 1024 + token - 1)
        ours = 1e3 * made.latency(gpu_update=False, hidden=False)
        assert abs(ours / theirs - 1) < 0.01, (token, ours)
    first = parts_of("zamba2-70b", 128, 1024)
    left = published.NEUPIMS["NeuPIMs"][0][0] - 1e3 * (first.products + first.rest)
    assert left < 1e3 * first.moved < 1e3 * first.gpu_update
