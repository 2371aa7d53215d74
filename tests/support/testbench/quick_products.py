# amaranth: UnusedElaboratable=no
"""Products in place of X25519's, in hardware, golden and clients alike: handshakes of thirty cycles a product, for
runs with many of them. A scalar times a point is the product of both numbers, modulo 2^256, so that it commutes
as the real one does; tests/crypto holds that one against `cryptography`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Module, Signal

from penstock.hdl.crypto import handshake as hardware
from penstock.hdl.crypto.x25519 import X25519
from penstock.host.omap import handshake as client
from penstock.models.crypto import noise, x25519
from penstock.models.omap import vault

__all__ = ["quick_hardware", "quick_products"]

CYCLES, _SIZE = 30, 32


def _product(scalar: bytes, point: bytes) -> bytes | None:
    number = int.from_bytes(scalar, "little") * int.from_bytes(point, "little") % (1 << 8 * _SIZE)
    return number.to_bytes(_SIZE, "little") if number else None


class _Product(X25519):
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        left, running = Signal(range(CYCLES)), Signal()
        m.d.comb += [self.idle.eq(~running), self.ended.eq(running & (left == 0))]
        m.d.sync += left.eq(left - 1)
        with m.If(self.start & ~running):
            result = (self.scalar * self.point)[: 8 * _SIZE]
            m.d.sync += [running.eq(1), left.eq(CYCLES - 1), self.result.eq(result)]
        with m.Elif(self.ended):
            m.d.sync += running.eq(0)
        m.d.comb += self.refused.eq(self.result == 0)
        return m


class _Public:
    def __init__(self, text: bytes) -> None:
        self.text = text

    @classmethod
    def from_public_bytes(cls, text: bytes) -> _Public:
        return cls(text)

    def public_bytes_raw(self) -> bytes:
        return self.text


class _Private:
    draw = random.Random(0)

    def __init__(self, text: bytes) -> None:
        self.text = text

    @classmethod
    def from_private_bytes(cls, text: bytes) -> _Private:
        return cls(text)

    @classmethod
    def generate(cls) -> _Private:
        return cls(cls.draw.randbytes(_SIZE))

    def public_key(self) -> _Public:
        return _Public(_product(self.text, x25519.BASE) or bytes(_SIZE))

    def exchange(self, other: _Public) -> bytes:
        made = _product(self.text, other.text)
        if made is None:
            raise ValueError("no product")
        return made


def quick_products(monkeypatch: Any) -> None:
    """Let golden and clients use them."""
    for module in (noise, vault):
        monkeypatch.setattr(module, "public_key", lambda scalar: _product(scalar, x25519.BASE))
    monkeypatch.setattr(noise, "x25519", _product)
    monkeypatch.setattr(client, "X25519PrivateKey", _Private)
    monkeypatch.setattr(client, "X25519PublicKey", _Public)
    monkeypatch.setattr(x25519, "CYCLES", CYCLES)


@contextmanager
def quick_hardware() -> Iterator[None]:
    """Hardware that is made in the body uses them."""
    with patch.object(hardware, "X25519", _Product):
        yield
