"""SHA-256, HMAC and HKDF: Python's own and another library's answers, and the hardware's."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.hdl.crypto.sha256 import Hkdf, Hmac, Sha256
from penstock.models.crypto.sha256 import (
    CONSTANTS,
    INITIAL,
    hash_cycles,
    hkdf,
    hkdf_cycles,
    hmac,
    hmac_cycles,
    sha256,
)
from testbench.pysim import simulate

#: around the ends of words and blocks
_SIZES = (0, 1, 3, 4, 5, 31, 32, 33, 51, 52, 55, 56, 57, 59, 60, 61, 63, 64, 65, 81, 119, 120, 128)


def test_published_constants():
    # FIPS 180-4, 4.2.2 and 5.3.3
    assert [hex(value) for value in CONSTANTS[:2]] == ["0x428a2f98", "0x71374491"]
    assert len(CONSTANTS) == 64 and hex(CONSTANTS[63]) == "0xc67178f2"
    assert hex(INITIAL[0]) == "0x6a09e667" and hex(INITIAL[7]) == "0x5be0cd19"


def test_published_answers():
    # FIPS 180-4's "abc"; RFC 4231, 4.3; RFC 5869, A.1
    assert sha256(b"abc").hex().startswith("ba7816bf8f01cfea")
    assert hmac(b"Jefe", b"what do ya want for nothing?").hex().startswith("5bdcc146bf60754e")
    made = hkdf(bytes(range(13)), b"\x0b" * 22, bytes(range(0xF0, 0xFA)), 2)
    assert b"".join(made)[:42].hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


@pytest.mark.parametrize("seed", range(5))
def test_keys_are_those_of_cryptography(seed):
    draw = random.Random(seed)
    salt, material, info = (draw.randbytes(size) for size in (32, draw.choice([0, 32]), 12))
    peer = HKDF(hashes.SHA256(), 32 * 3, salt, info).derive(material)
    assert b"".join(hkdf(salt, material, info, 3)) == peer


def _words(text: bytes) -> list[dict[str, int]]:
    parts = [text[at : at + 4] for at in range(0, len(text), 4)] or [b""]
    return [
        {
            "data": int.from_bytes(
                part.ljust(4, b"\xa5"), "big"
            ),  # what does not count is anything
            "bytes": len(part),
            "last": k == len(parts) - 1,
        }
        for k, part in enumerate(parts)
    ]


async def _until(ctx, port, most: int) -> int:
    """Return the cycles until it is high."""
    for cycle in range(most):
        if ctx.get(port):
            return cycle
        await ctx.tick()
    raise AssertionError(f"not in {most} cycles")


async def _hash(ctx, core, text: bytes, pace: float, draw: random.Random, most: int = 20_000):
    """Return the cycles, those among them that a word came late, and the digest."""
    ctx.set(core.start, 1)
    await ctx.tick()
    ctx.set(core.start, 0)
    cycles, late, words = 1, 0, _words(text)
    while not ctx.get(core.ended) and cycles < most:
        ctx.set(core.i.valid, bool(words) and draw.random() < pace)
        if words:
            ctx.set(core.i.payload, words[0])
        ready, valid = ctx.get(core.i.ready), ctx.get(core.i.valid)
        if ready:
            late += not valid
            words = words[1:] if valid else words
        await ctx.tick()
        cycles += 1
    return cycles, late, ctx.get(core.digest).to_bytes(32, "little")


def _hashed(core, texts, pace: float) -> list[tuple[int, int, bytes]]:
    draw, told = random.Random(0), []

    async def bench(ctx):
        for key, text in texts:
            if key is not None:
                ctx.set(core.key, int.from_bytes(key, "little"))
            told.append(await _hash(ctx, core, text, pace, draw))

    simulate(core, bench)
    return told


@pytest.mark.parametrize("pace", [1.0, 0.4])
def test_hashes_of_the_hardware(pace):
    draw = random.Random(1)
    texts = [(None, draw.randbytes(size)) for size in _SIZES]
    for (_, text), (cycles, late, digest) in zip(
        texts, _hashed(Sha256(), texts, pace), strict=True
    ):
        assert digest == sha256(text)
        assert cycles == hash_cycles(len(text)) + late


@pytest.mark.parametrize("pace", [1.0, 0.4])
def test_codes_of_the_hardware(pace):
    draw = random.Random(2)
    texts = [(draw.randbytes(32), draw.randbytes(size)) for size in (0, 1, 32, 33, 60, 64)]
    found = _hashed(Hmac(), texts, pace)
    for (key, text), (cycles, late, digest) in zip(texts, found, strict=True):
        assert digest == hmac(key, text)
        assert cycles == hmac_cycles(len(text)) + late


@pytest.mark.parametrize("info_bytes", [0, 12])
def test_keys_of_the_hardware(info_bytes):
    core, draw = Hkdf(info_bytes), random.Random(info_bytes)

    async def bench(ctx):
        for material_bytes, count in ((32, 2), (0, 2), (32, 3), (32, 1)):
            salt, material, info = (draw.randbytes(n) for n in (32, material_bytes, info_bytes))
            ctx.set(core.salt, int.from_bytes(salt, "little"))
            ctx.set(core.material, int.from_bytes(material or draw.randbytes(32), "little"))
            ctx.set(core.bare, not material)
            if info:
                ctx.set(core.info, int.from_bytes(info, "little"))
            ctx.set(core.count, count)
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            cycles = 1 + await _until(ctx, core.ended, 5000)
            assert cycles == hkdf_cycles(material_bytes, info_bytes, count)
            made = [ctx.get(core.blocks[k]).to_bytes(32, "little") for k in range(count)]
            assert made == hkdf(salt, material, info, count)

    simulate(core, bench)


@pytest.mark.parametrize("cycles", [5, 40, 66, 120, 131])
def test_a_start_forgets_what_was_begun(cycles):
    core, text, told = Sha256(), bytes(range(70)), []

    async def bench(ctx):
        await _hash(ctx, core, bytes(60), 1.0, random.Random(0), cycles)
        told.append(await _hash(ctx, core, text, 1.0, random.Random(0)))

    simulate(core, bench)
    assert told == [(hash_cycles(70), 0, sha256(text))]
