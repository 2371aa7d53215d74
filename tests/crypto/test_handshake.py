"""Handshakes in hardware: the golden answer's bits, one refusal for whatever is wrong, and the same
cycles for all."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Module

from penstock.hdl.crypto import handshake as hardware
from penstock.hdl.crypto.handshake import Handshake
from penstock.hdl.crypto.x25519 import X25519
from penstock.host.omap.handshake import Initiator
from penstock.models.crypto import x25519 as products
from penstock.models.crypto.handshake import cycles
from penstock.models.crypto.noise import Keys, Refusal, Responder, Symmetric
from penstock.models.crypto.x25519 import PRIME, public_key, x25519
from testbench.pysim import simulate
from testbench.started import run_started

_OUTPUTS = ("refusal", "message", "receive", "send", "handshake")


def _number(text: bytes) -> int:
    return int.from_bytes(text, "little")


def _cases(count: int, payload: int) -> list[tuple[Responder, bytes, bytes, bytes]]:
    """Responders with first messages, ephemeral scalars and payloads; all but two of each six are
    wrong in some way."""
    draw, made = random.Random(payload), []
    static = b""
    for k in range(count):
        ephemeral, own = (draw.randbytes(32) for _ in range(2))
        static = draw.randbytes(32) if k % 3 == 0 else static
        secret = draw.randbytes(32) if k % 2 else None
        responder = Responder(static, draw.randbytes(40), secret)
        prologue = responder.prologue + b"x" * (k % 6 == 2)
        first = Initiator(public_key(static), prologue, secret, ephemeral).message
        if k % 6 == 3:
            point = draw.choice([0, 1, PRIME - 1, PRIME, PRIME + 1])
            first = point.to_bytes(32, "little") + first[32:]
        if k % 6 >= 4:
            at = draw.randrange(8 * len(first))
            first = _changed(first, at)
        made.append((responder, first, own, draw.randbytes(payload)))
    return made


def _changed(text: bytes, bit: int) -> bytes:
    changed = bytearray(text)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _given(cases) -> list[dict[str, int]]:
    """What the hardware is started with."""
    inputs, last = [], b""
    for responder, first, own, text in cases:
        state = Symmetric(responder.secret is not None, responder.prologue)
        given = {
            "hash": state.hash, "scalar": responder.static, "ephemeral": own, "first": first,
            "secret": responder.secret or b"\xff" * 32, "payload": text,
        }  # fmt: skip
        inputs.append({name: _number(value) for name, value in given.items()})
        inputs[-1]["shared"] = responder.secret is not None
        inputs[-1]["anew"], last = responder.static != last, responder.static
    return inputs


def _compare(cases, found, payload: int) -> None:
    refusals, last = set(), b""
    for (responder, first, own, text), (took, refusal, *told) in zip(cases, found, strict=True):
        golden = responder.answer(first, own, text)
        assert took == cycles(responder.secret is not None, payload, responder.static != last)
        last = responder.static
        refusals.add(refusal)
        if isinstance(golden, Keys):
            meant = (golden.message, golden.receive, golden.send, golden.hash)
            assert (refusal, told) == (0, [_number(value) for value in meant])
        else:
            assert (refusal, told) == (golden, [0, 0, 0, 0])
    assert refusals == {0, Refusal.POINT, Refusal.TAG}


class _Product(X25519):
    """In place of `X25519`: products that the bench knows."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.idle.eq(1)
        return m


def test_the_steps_are_golden_and_their_cycles_the_same_for_all(monkeypatch):
    """All but the multiplications is the hardware's."""
    payload, made = 33, []
    monkeypatch.setattr(hardware, "X25519", lambda: made.append(_Product()) or made[-1])
    monkeypatch.setattr(products, "CYCLES", 30)
    cases = _cases(4, payload)[1:]
    core, found = Handshake(payload=payload), []

    async def multiply(ctx):
        while True:
            product = made[0]
            while not ctx.get(product.start):
                await ctx.tick()
            scalar, point = (
                ctx.get(x).to_bytes(32, "little") for x in (product.scalar, product.point)
            )
            await ctx.tick().repeat(products.CYCLES)
            value = x25519(scalar, point)
            ctx.set(product.result, _number(value or bytes(32)))
            ctx.set(product.refused, value is None)
            ctx.set(product.ended, 1)
            await ctx.tick()
            ctx.set(product.ended, 0)

    async def bench(ctx):
        for given in _given(cases):
            for name, value in given.items():
                ctx.set(getattr(core, name), value)
            assert ctx.get(core.idle)
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            took = 1
            while not ctx.get(core.ended):
                await ctx.tick()
                took += 1
                assert took < 10_000
            found.append((took, *(ctx.get(getattr(core, name)) for name in _OUTPUTS)))

    simulate(core, bench, background=[multiply])
    _compare(cases, found, payload)


@pytest.mark.long
@pytest.mark.parametrize("payload, count", [(33, 12), (16, 48)])
def test_the_hardware_answers_as_golden_in_the_same_cycles_for_all(payload, count):
    cases = _cases(count, payload)
    found = run_started(Handshake(payload=payload), _given(cases), _OUTPUTS, limit=300_000)
    _compare(cases, found, payload)
