"""Ciphers and hash of the map, against published answers."""

import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.models.omap import aes, ascon
from penstock.models.omap.ciphers import CIPHERS
from penstock.models.omap.siphash import siphash

_KEY = int.from_bytes(bytes(range(16)), "little")

#: known answers of Ascon-AEAD128 (ascon-c, LWC_AEAD_KAT_128_128): key 00 01 … 0f, nonce 10 11 … 1f, no
#: associated data, messages 20 21 … of 0 to 32 bytes
_ASCON = (
    "4F9C278211BEC9316BF68F46EE8B2EC6",
    "E8DD576ABA1CD3E6FC704DE02AEDB79588",
    "E8C35A12D2A396E76224F6EE5418F6465197",
    "E8C3DEAF8E12816B8EDF39AD1571A9492B7CA2",
    "E8C3DEEE03C0A96A9B09B64CDE66D9AB0796CD04",
    "E8C3DEEE2421812A398A8FF074C8B7DA46C82A94A7",
    "E8C3DEEE246C05D75242AFC7928D1157C10AB4AEE0F2",
    "E8C3DEEE246CC5653B4F72D2456EE9DBDA057677A3F87A",
    "E8C3DEEE246CC5EAE455EF6B33B782A3DD91ED6695373C27",
    "E8C3DEEE246CC5EAE3329BC950AE101B9247F3605EBEDCBF6C",
    "E8C3DEEE246CC5EAE3E8DF96F8B1F5C34F2E8C96D3305D849297",
    "E8C3DEEE246CC5EAE3E8724657914B9DE7C78E25D6A482F7EB3CFA",
    "E8C3DEEE246CC5EAE3E872313681E50093528EA0705C07B5D3DC6486",
    "E8C3DEEE246CC5EAE3E8723138A5C650E11348C7DD427F3977AB9B630E",
    "E8C3DEEE246CC5EAE3E872313897D52C675734AD306A5BC54C1422934D5D",
    "E8C3DEEE246CC5EAE3E872313897A283AECC1DA0834A52940EC4BFCDDB6404",
    "E8C3DEEE246CC5EAE3E872313897A2BB9EAA915C9DD3245D77048F24D46D27A7",
    "E8C3DEEE246CC5EAE3E872313897A2BB60301002539D456275DD0B0CEAB3B23844",
    "E8C3DEEE246CC5EAE3E872313897A2BB608922F7517D289D000B4418443947AD52DA",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA26E4099A8F7C06AA8CBF6A20A0316D61",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3EA2013BE574B7E87EE1FB650AC5F4F93A",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E1514B0B35B5C13FB37BA8EA9F73A767092",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E8716C6A45716E62379B6C5AC65E11D182",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E8030C91B33379F1FA4CD0DDD83E72AB54CD",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307F2D00B0754CB343B0EA742A196423647",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E8030797787643EC8F22A0266ECCEF74D326B556",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F27AF1FFE5269710780A0D91EAB1BD3AF",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D8FA96A7A8F18A2163D45CC8061DDBE9E",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D1FE418CEA5853314B05F1F89F229D6770F",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D1F00AC3D038076CB38A7782A2823823AAB66",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D1F0066FA1EA2B92A5DD1B9D1C9DEB4CBEAABA0",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D1F006654609F5B9C996A223962F5B702DD53C2EB",
    "E8C3DEEE246CC5EAE3E872313897A2BB6089AA3E15E80307970F2D1F006654C2AAA5FA172CB9F07D07463CEFC7440BC1",
)


def test_ascon_known_answers():
    nonce = int.from_bytes(bytes(range(16, 32)), "little")
    assert len(_ASCON) == 33
    for size, answer in enumerate(_ASCON):
        message, sealed = bytes(range(0x20, 0x20 + size)), bytes.fromhex(answer)
        assert ascon.seal(_KEY, nonce, message) == sealed
        assert ascon.open_(_KEY, nonce, sealed) == message


@pytest.mark.parametrize("size", [0, 15, 16, 40])
def test_every_flipped_bit_is_seen(size):
    sealed = ascon.seal(_KEY, 5, bytes(size))
    for bit in range(0, 8 * len(sealed), 7):
        forged = bytearray(sealed)
        forged[bit // 8] ^= 1 << bit % 8
        assert ascon.open_(_KEY, 5, bytes(forged)) is None
    assert ascon.open_(_KEY, 6, sealed) is None
    assert ascon.open_(_KEY + 1, 5, sealed) is None


@pytest.mark.parametrize("name", CIPHERS)
def test_many_messages_are_sealed_as_one_by_one(name):
    draw, cipher = np.random.default_rng(1), CIPHERS[name]
    nonces = draw.integers(0, 1 << 63, size=(7, 2), dtype=np.uint64)
    texts = draw.integers(0, 1 << 63, size=(7, 6), dtype=np.uint64)
    many = cipher.seal_many(_KEY, nonces, texts)
    for k in range(7):
        nonce = int(nonces[k, 0]) | int(nonces[k, 1]) << 64
        assert many[k].tobytes() == cipher.seal(_KEY, nonce, texts[k].tobytes())


def test_siphash_known_answers():
    # Aumasson and Bernstein, "SipHash: a fast short-input PRF", appendix A; and their vectors.h
    assert siphash(_KEY, bytes(range(15))) == 0xA129CA6149BE45E5
    for size, answer in ((0, "310e0edd47db6f72"), (1, "fd67dc93c539f874")):
        assert siphash(_KEY, bytes(range(size))).to_bytes(8, "little").hex() == answer


#: known answers of AES-128-GCM: key, nonce, message, ciphertext, tag. Three of the algorithm's specification
#: (McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 1 to 3), which SP 800-38D
#: standardises, and two of NIST's CAVP (gcmEncryptExtIV128.rsp, count 0 of the messages without
#: associated data of 0 and of 128 bits)
_GCM = (
    ("00" * 16, "00" * 12, "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
    (
        "00" * 16,
        "00" * 12,
        "00" * 16,
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    ),
    (
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        "4d5c2af327cd64a62cf35abd2ba6fab4",
    ),
    (
        "11754cd72aec309bf52f7687212e8957",
        "3c819d9a9bed087615030b65",
        "",
        "",
        "250327c674aaf477aef2675748cf6971",
    ),
    (
        "7fddb57453c241d03efbed3ac44e371c",
        "ee283a3fc75575e33efd4887",
        "d5de42b461646c255c87bd2962d3b9a2",
        "2ccda4a5415cb91e135c2a0f78c9b2fd",
        "b36d1df9b9d5e596f83e8b7f52971cb3",
    ),
)


@pytest.mark.parametrize("key, nonce, message, ciphertext, tag", _GCM)
def test_aes_gcm_known_answers(key, nonce, message, ciphertext, tag):
    numbers = [int.from_bytes(bytes.fromhex(text), "little") for text in (key, nonce)]
    sealed = bytes.fromhex(ciphertext + tag)
    assert aes.seal(*numbers, bytes.fromhex(message)) == sealed
    assert aes.open_(*numbers, sealed) == bytes.fromhex(message)


@pytest.mark.parametrize("size", [0, 1, 16, 47, 64])
def test_aes_gcm_is_that_of_cryptography(size):
    draw = random.Random(size)
    key, nonce, text = draw.randbytes(16), draw.randbytes(12), draw.randbytes(size)
    numbers = int.from_bytes(key, "little"), int.from_bytes(nonce, "little")
    sealed = aes.seal(*numbers, text)
    assert sealed == AESGCM(key).encrypt(nonce, text, None)
    assert aes.open_(*numbers, sealed) == text
    forged = bytearray(sealed)
    forged[draw.randrange(len(sealed))] ^= 1 << draw.randrange(8)
    assert aes.open_(*numbers, bytes(forged)) is None
