"""Cipher cores: the bits of the specification, in the cycles that it states."""

import random

import pytest

from penstock.hdl.omap.ciphers import CORES
from penstock.models.omap.aes import short
from penstock.models.omap.ciphers import CIPHERS
from penstock.models.omap.messages import request_nonce, response_nonce
from penstock.models.omap.traffic import page_nonce
from testbench.pysim import simulate


def _run(core, messages, gaps):
    """Feed messages (key, nonce, blocks); return for each one its results, its tag, and the cycles of
    blocks and tag since the start."""
    told = []

    async def bench(ctx):
        for key, nonce, blocks in messages:
            ctx.set(core.key, key)
            ctx.set(core.nonce, nonce)
            assert ctx.get(core.idle)
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            cycle, out, times = 1, [], []
            for block, gap in zip(blocks, gaps, strict=True):
                for _ in range(gap):
                    await ctx.tick()
                    cycle += 1
                ctx.set(core.valid, 1)
                ctx.set(core.block, block)
                while not ctx.get(core.taken):
                    assert not ctx.get(core.tag_valid)
                    await ctx.tick()
                    cycle += 1
                out.append(ctx.get(core.result))
                times.append(cycle)
                await ctx.tick()
                cycle += 1
                ctx.set(core.valid, 0)
            while not ctx.get(core.tag_valid):
                await ctx.tick()
                cycle += 1
            ctx.set(core.tag_taken, 1)
            told.append((out, ctx.get(core.tag), [*times, cycle]))
            await ctx.tick()
            ctx.set(core.tag_taken, 0)

    simulate(core, bench)
    return told


def _blocks(text):
    return [int.from_bytes(text[k : k + 16], "little") for k in range(0, len(text), 16)]


def _nonce(draw):
    page, chunk = draw.getrandbits(32), draw.getrandbits(6)
    return draw.getrandbits(56) | page << 64 | chunk << 96 | draw.getrandbits(2) << 126


@pytest.mark.parametrize("opening", [False, True])
@pytest.mark.parametrize(
    "name, rounds", [(name, r) for name in CIPHERS for r in CIPHERS[name].rounds]
)
def test_cores_are_their_specification(name, rounds, opening):
    draw, cipher = random.Random(f"{name} {rounds}"), CIPHERS[name]
    blocks, pace = 3, cipher.pace(rounds)
    core = CORES[name](blocks=blocks, rounds=rounds, opening=opening)
    made = [(draw.getrandbits(128), _nonce(draw), draw.randbytes(16 * blocks)) for _ in range(3)]
    sealed = [cipher.seal(*message) for message in made]
    given = [
        (key, nonce, _blocks(text if not opening else one[:-16]))
        for (key, nonce, text), one in zip(made, sealed, strict=True)
    ]
    for gaps in ([0] * blocks, [40, 0, 3]):
        for (_, _, text), one, (out, tag, times) in zip(
            made, sealed, _run(core, given, gaps), strict=True
        ):
            assert out == _blocks(text if opening else one[:-16])
            assert [tag] == _blocks(one[-16:])
            at, earliest = 1, pace.first
            for gap, time in zip(gaps, times, strict=False):
                assert time == max(at + gap, earliest)
                at, earliest = time + 1, time + pace.block
            assert times[-1] == times[-2] + pace.tag
        if gaps[0]:
            break
        core = CORES[name](blocks=blocks, rounds=rounds, opening=opening)


def test_nonces_that_differ_stay_different():
    draw = random.Random(3)
    made = [_nonce(draw) for _ in range(1000)]
    made += [request_nonce(n) for n in range(40)] + [response_nonce(n) for n in range(40)]
    made += [page_nonce(p, c, k) for p in range(1, 5) for c in range(1, 5) for k in range(4)]
    assert len({short(nonce) for nonce in made}) == len(set(made))
    assert all(short(1 << bit) for bit in (0, 55, 64, 95, 96, 101, 126, 127))
