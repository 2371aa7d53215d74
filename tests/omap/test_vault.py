"""Keys from root and entropy: another library's bytes, and the hardware's in the model's cycles."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from penstock.hdl.omap.vault import KeySchedule as Hardware
from penstock.models.omap.vault import (
    GENERATION_BITS,
    Derived,
    KeySchedule,
    Role,
    boot_cycles,
    draw_cycles,
    info,
)
from testbench.pysim import simulate


def _peer(material: bytes, salt: bytes, label: str, *behind: bytes) -> bytes:
    text = label.encode().ljust(8, b"\0") + b"".join(behind)
    return HKDF(hashes.SHA256(), 32, salt, text).derive(material)


def _made(seed: int) -> tuple[bytes, bytes, bytes, int]:
    draw = random.Random(seed)
    return (
        draw.randbytes(32),
        draw.randbytes(32),
        draw.randbytes(32),
        draw.getrandbits(GENERATION_BITS),
    )


def test_keys_are_those_of_cryptography():
    root, entropy, digest, generation = _made(1)
    keys = KeySchedule(root, entropy, digest, generation)
    boot = _peer(root, entropy, "boot", digest)
    number = lambda value: value.to_bytes(8, "little")
    of_boot = lambda label, count=0: HKDFExpand(hashes.SHA256(), 32, info(label, count)).derive(
        boot
    )
    assert keys.page == of_boot("page")[:16] and keys.incarnation == of_boot("incarnat")[:16]
    assert keys.pairs == of_boot("pairs")[:16] and keys.hash == of_boot("hash")[:16]
    assert [keys.ephemeral(), keys.ephemeral()] == [of_boot("ephemer", k) for k in range(2)]
    of_root = lambda label, *more: _peer(root, bytes(32), label, number(generation), *more)
    assert keys.static == of_root("static") and keys.role_key(Role.READER) is None
    assert keys.role_key(Role.WRITER) == of_root("writer")
    assert keys.role_key(Role.KEEPER) == of_root("keeper")
    state = of_root("state", number(77), keys.incarnation, bytes(range(16)), number(1))
    assert keys.state_key(keys.incarnation, bytes(range(16)), 1, 77, generation) == state


def test_what_depends_on_what():
    """A power-up changes what the map keeps to itself, and nothing that clients know; each input
    changes what follows from it."""
    root, entropy, digest, generation = _made(2)
    own = lambda k: (k.page, k.pairs, k.hash, k.incarnation, k.ephemeral())
    known = lambda k: (k.static, k.role_key(Role.WRITER), k.role_key(Role.KEEPER))
    at = KeySchedule(root, entropy, digest, generation)
    one, two = own(at), known(at)
    assert len(set(one + two)) == 8
    for changed, of_map, of_clients in (
        ((root, digest, digest, generation), True, False),
        ((root, entropy, entropy, generation), True, False),
        ((entropy, entropy, digest, generation), True, True),
        ((root, entropy, digest, generation ^ 1), False, True),
    ):
        other = KeySchedule(*changed)
        assert all((a != b) == of_map for a, b in zip(own(other), one, strict=True))
        assert all((a != b) == of_clients for a, b in zip(known(other), two, strict=True))


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="entropy has 32 bytes, not 31"):
        KeySchedule(bytes(32), bytes(31), bytes(32))
    with pytest.raises(ValueError, match="at most 8 bytes, not 9"):
        info("ninebytes")
    with pytest.raises(ValueError, match="generations end at 16777215, not 16777216"):
        KeySchedule(bytes(32), bytes(32), bytes(32), 1 << 24)


def test_the_hardware_is_golden_and_no_reset_repeats_a_scalar():
    root, entropy, digest, generation = _made(3)
    golden, core, reset = KeySchedule(root, entropy, digest, generation), Hardware(), Signal()

    async def ended(ctx) -> int:
        cycles = 0
        while not ctx.get(core.ended):
            await ctx.tick()
            cycles += 1
            assert cycles < 6000
        return cycles

    async def stopped(ctx, after: int) -> None:
        await ctx.tick().repeat(after)
        ctx.set(reset, 1)
        await ctx.tick().repeat(2)
        ctx.set(reset, 0)

    async def bench(ctx):
        for name, text in (("root", root), ("entropy", entropy), ("digest", digest)):
            ctx.set(getattr(core, name), int.from_bytes(text, "little"))
        ctx.set(core.generation, generation)
        ctx.set(core.start, 1)
        await stopped(ctx, 700)
        assert not ctx.get(core.there) and await ended(ctx) == boot_cycles()
        meant = {
            name: getattr(golden, name)
            for name in ("page", "pairs", "hash", "incarnation", "static")
        }
        meant |= {role.value: golden.role_key(role) for role in (Role.WRITER, Role.KEEPER)}
        for turn in range(3):
            await stopped(ctx, 3)
            ctx.set(core.draw, 1)
            if turn == 1:  # a reset while a scalar is made
                await stopped(ctx, 100)
            await ctx.tick()
            ctx.set(core.draw, 0)
            assert 1 + await ended(ctx) == draw_cycles()
            meant["ephemeral"] = golden.ephemeral()
            for previous in range(turn):
                file = golden.incarnation, bytes([previous] * 16), turn, 1 << 63, generation - turn
                said = b"".join(n.to_bytes(8, "little") for n in file[:2:-1])
                said += file[0] + file[1] + bytes([turn, *bytes(7)])
                ctx.set(core.file, int.from_bytes(said, "little"))
                ctx.set(core.of_file, 1)
                ctx.set(core.draw, 1)
                await ctx.tick()
                ctx.set(core.draw, 0)
                assert 1 + await ended(ctx) == draw_cycles(Derived.STATE)
                ctx.set(core.of_file, 0)
                meant["state"] = golden.state_key(*file)
                await ctx.tick()
            for name, text in meant.items():
                assert ctx.get(getattr(core, name)) == int.from_bytes(text, "little"), name
            await ctx.tick()
            assert ctx.get(core.idle) and ctx.get(core.there)

    simulate(ResetInserter(reset)(core), bench)
