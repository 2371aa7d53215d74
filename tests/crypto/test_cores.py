"""The cipher core: the bits of the specification, in the cycles that it states."""

import random

import pytest

from penstock.hdl.crypto.ascon import Sponge
from penstock.hdl.crypto.siphash import SipHash
from penstock.models.crypto import ascon
from penstock.models.crypto.siphash import siphash
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


@pytest.mark.parametrize("opening", [False, True])
@pytest.mark.parametrize("rounds", ascon.ROUNDS)
def test_cores_are_their_specification(rounds, opening):
    draw = random.Random(rounds)
    blocks, pace = 3, ascon.pace(rounds)
    core = Sponge(blocks=blocks, rounds=rounds, opening=opening)
    made = [
        (draw.getrandbits(128), draw.getrandbits(128), draw.randbytes(16 * blocks))
        for _ in range(3)
    ]
    sealed = [ascon.seal(*message) for message in made]
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
        core = Sponge(blocks=blocks, rounds=rounds, opening=opening)


@pytest.mark.parametrize("words", [1, 2])
def test_the_hash_of_a_key(words):
    draw, core = random.Random(words), SipHash(words=words)

    async def bench(ctx):
        for _ in range(20):
            key, text = draw.getrandbits(128), draw.randbytes(8 * words)
            ctx.set(core.key, key)
            ctx.set(core.message, int.from_bytes(text, "little"))
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            ctx.set(core.message, 0)
            for _ in range(3 + words):
                await ctx.tick()
            assert ctx.get(core.hash) == siphash(key, text)

    simulate(core, bench)
