"""AES-256-GCM: published answers, and another library's."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.hdl.crypto.gcm import Gcm
from penstock.models.crypto import gcm
from testbench.pysim import simulate

#: key, nonce, message, associated data, ciphertext with its tag: test cases 13, 14 and 16 of the
#: algorithm's specification (McGrew and Viega, "The Galois/Counter Mode of Operation")
_ANSWERS = (
    ("00" * 32, "00" * 12, "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        "00" * 32,
        "00" * 12,
        "00" * 16,
        "",
        "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
    ),
    (
        "feffe9928665731c6d6a8f9467308308" * 2,
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
)


@pytest.mark.parametrize("key, nonce, message, data, sealed", _ANSWERS)
def test_published_answers(key, nonce, message, data, sealed):
    key, nonce, message, data, sealed = map(bytes.fromhex, (key, nonce, message, data, sealed))
    assert gcm.seal(key, nonce, message, data) == sealed
    assert gcm.open_(key, nonce, sealed, data) == message


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 33, 64, 100])
def test_texts_are_those_of_cryptography(size):
    draw = random.Random(size)
    for more in (0, 1, 16, 32, 45):
        key, nonce, text, data = (draw.randbytes(n) for n in (32, 12, size, more))
        sealed = gcm.seal(key, nonce, text, data)
        assert sealed == AESGCM(key).encrypt(nonce, text, data)
        assert gcm.open_(key, nonce, sealed, data) == text
        forged, other = bytearray(sealed), bytearray(data + b"\0")
        forged[draw.randrange(len(sealed))] ^= 1 << draw.randrange(8)
        assert gcm.open_(key, nonce, bytes(forged), data) is None
        other[draw.randrange(len(other))] ^= 1
        assert gcm.open_(key, nonce, sealed, bytes(other)) is None


_SHAPES = ((2, 0), (2, 33), (0, 1), (0, 16), (1, 15), (3, 40), (0, 0), (2, 64), (3, 16))


def _blocks(text: bytes) -> list[int]:
    parts = [text[at : at + 16] for at in range(0, len(text), 16)]
    return [int.from_bytes(part.ljust(16, b"\xa5"), "little") for part in parts]


@pytest.mark.parametrize("pace", [1.0, 0.05])
def test_the_core_is_golden_in_the_cycles_of_the_model(pace):
    """One message behind another, of any shape; with every block there in time, and with late ones.
    What lies behind a text's last byte is not looked at."""
    core, draw = Gcm(), random.Random(pace)

    async def bench(ctx):
        shapes = [(shape, opening) for shape in _SHAPES for opening in (False, True)]
        for (data_blocks, size), opening in draw.sample(shapes, 12):
            key, nonce, text, data = (draw.randbytes(n) for n in (32, 12, size, 16 * data_blocks))
            sealed = gcm.seal(key, nonce, text, data)
            given = [*_blocks(data), *_blocks(sealed[:size] if opening else text)]
            for port, value in (
                (core.opening, opening), (core.data_blocks, data_blocks), (core.size, size),
                (core.key, int.from_bytes(key, "little")), (core.nonce, int.from_bytes(nonce, "little")),
            ):  # fmt: skip
                ctx.set(port, value)
            assert ctx.get(core.idle)
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            cycles, out = 1, []
            while not ctx.get(core.tag_valid):
                ctx.set(core.valid, bool(given) and draw.random() < pace)
                if given:
                    ctx.set(core.block, given[0])
                if ctx.get(core.taken):
                    del given[0]
                    out.append(ctx.get(core.result).to_bytes(16, "little"))
                await ctx.tick()
                cycles += 1
                assert cycles < 2000
            made = b"".join(out[data_blocks:])
            assert made == (text if opening else sealed[:size]).ljust(len(made), b"\0")
            assert len(out) == data_blocks + -(-size // 16)
            assert ctx.get(core.tag).to_bytes(16, "little") == sealed[size:]
            if pace == 1.0:
                assert cycles == gcm.cycles(data_blocks, size)
            ctx.set(core.tag_taken, 1)
            await ctx.tick()
            # it is not there once more, though it may still be taken
            assert ctx.get(core.idle) and not ctx.get(core.tag_valid)
            ctx.set(core.tag_taken, draw.randrange(2))
            await ctx.tick()
            ctx.set(core.tag_taken, 0)

    simulate(core, bench)
