"""models/pim/layout: what no device beats, in numbers of the kernel alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.models.bound_terms import Machine
from penstock.models.memory import FixedLatency
from penstock.models.numerics.lfsr import seed_words
from penstock.models.pim import rate
from penstock.models.pim.config import Design, PimConfig
from penstock.models.pim.layout import COLUMNS, Layout
from penstock.models.pim.operands import Bits, Operands, Seating, Work
from penstock.targets import target_named

MEMORY = FixedLatency(3, 16)


@pytest.mark.parametrize(("format", "size", "factor"), [("mx8", 1, 7), ("float16", 2, 11)])
@pytest.mark.parametrize(
    ("mode", "read", "products"),
    [
        ("update", 3 * 64 * 40 + 5 * 3 * 64, 3 * 5 * 3 * 64 * 40),
        ("score", 3 * 64 * 40 + 5 * 3 * 64, 5 * 3 * 64 * 40),
        ("attend", 3 * 64 * 40 + 5 * 3 * 40, 5 * 3 * 64 * 40),
    ],
)
def test_what_no_device_beats(
    format: str, size: int, factor: int, mode: str, read: int, products: int
) -> None:
    """Five tokens of three heads of 64 by 40, on a part whose look-up tables multiply."""
    part = replace(target_named("small"), dsp=0)
    layout = Layout(PimConfig(format=format), ((mode, True),), 64, 40, 3, 5)
    words = size * read // part.bus_bytes
    factors = (factor, factor, False)
    expected = Machine.of(part, MEMORY, words, [(products, [factors])], 5)
    assert layout.machine_bound(part, MEMORY) == expected
    assert expected != Machine.of(
        part, MEMORY, words, [(products, [(factor + 1, factor, False)])], 5
    )


@pytest.mark.parametrize(("mode", "chunks"), [("update", 3), ("score", 3), ("attend", 2)])
def test_rows_of_a_bank(mode: str, chunks: int) -> None:
    """A head's columns fill one bank of a pair, those of a cache that is attended both."""
    assert Layout(PimConfig(), ((mode, True),), 64, 3 * COLUMNS, 1, 1).chunks == chunks


def _held(layout: Layout, work: Work, fresh: list[bool]) -> dict[str, np.ndarray]:
    return layout.held(work, np.array(fresh))


def test_what_nobody_has_is_cleared() -> None:
    """Rates of 1 at every token, whatever a request left there; slots of requests that wait keep their states."""
    config, bits = PimConfig(groups=2, banks=4), Bits(1, 0, 0)
    given = Operands(q=np.ones((3, 1, 64)), k=np.ones((3, 1, 64)), v=np.ones((3, 1, 32)))
    slots, idle = (5,), (1, 2)
    seating = Seating(slots, (0, 1), idle, (bits,))
    layout = Layout(config, (("update", True),), 64, 32, 1, 3, seating=seating)
    assert layout.parts == 1 and config.pairs == 4
    for fresh in (False, True):
        held = _held(layout, Work(0, 0, given), [fresh])
        rates = np.stack([held[name].view("<u2") for name in sorted(held) if name[0] == "c"], -2)
        rates = rates.reshape(3, 8, -1)
        for slot in range(8):
            ones = slot not in (*slots, *idle)
            first = ones or (fresh and slot in slots)
            assert (rates[0, slot] == rate.ONE * first).all(), slot
            assert (rates[1:, slot] == rate.ONE * ones).all(), slot


@pytest.mark.parametrize("updates", [1, 2, 8, 12])
@pytest.mark.parametrize("design", [Design.PIMBA, Design.PER_BANK])
def test_no_two_units_draw_the_same_bits(design: Design, updates: int) -> None:
    """Of all updates of a token, units, stripes and tokens; behind a pass that only reads."""
    config = PimConfig(stochastic=True, groups=2, banks=4, stripes=2, design=design)
    passes = (("update", False),) * updates
    layout = Layout(config, (("score", True), *passes), 64, 64, 2, 3)
    given = Operands(q=np.ones((3, 2, 64)), k=np.ones((3, 2, 64)), v=np.ones((3, 2, 64)))
    units, seeds = 2 // design.banks, []
    for number in range(updates):
        held = _held(layout, Work(1 + number, 0, given), [True, True])
        pairs = held["seed"].reshape(
            3, 4, 2, 16
        )  # two heads of one pair of slices, two stripes each
        assert pairs[:, :, :units].any(axis=-1).all() and not pairs[:, :, units:].any()
        seeds.append(pairs[:, :, :units])
    every = np.stack(seeds).reshape(-1, 16)
    assert len(np.unique(every, axis=0)) == updates * 3 * 4 * units


def test_a_stripe_has_the_bits_of_units_from_16_on() -> None:
    """They are part of a kernel's result."""
    config = PimConfig(stochastic=True, groups=2, banks=4, stripes=2)
    layout = Layout(config, (("update", False), ("update", True)), 64, 64, 2, 1, -5)
    given = Operands(q=np.ones((1, 2, 64)), k=np.ones((1, 2, 64)), v=np.ones((1, 2, 64)))
    for number, update in ((0, 0), (1, 1)):
        held = _held(layout, Work(number, 0, given), [True, True])
        found = held["seed"].reshape(4, 32)[:, :16].copy().view("<u8")
        for pair in range(4):
            item, stripe = divmod(pair, 2)
            words = seed_words(np.uint64((1 << 64) - 5), item, 0, 0, 0, 0, update + 16 * stripe)
            np.testing.assert_array_equal(found[pair], words)


@pytest.mark.parametrize(("first", "before"), [(3, 0), (0, 3), (1, 2)])
def test_bits_are_of_the_tokens_number(first: int, before: int) -> None:
    """Whether a session begins there, or a run goes on, and whatever 64 bits a seed has."""
    seeds = []
    for begin, done, tokens in ((0, 0, 4), (first, before, 1)):
        config, passes = PimConfig(stochastic=True, groups=2), (("update", True),)
        layout = Layout(config, passes, 64, 32, 2, tokens, -5, first=begin)
        shapes = [(tokens, 2, 64)] * 2 + [(tokens, 2, 32)]
        given = Operands(**dict(zip("qkv", map(np.ones, shapes), strict=True)))
        seeds.append(_held(layout, Work(0, done, given), [False, False])["seed"])
    np.testing.assert_array_equal(seeds[0][3], seeds[1][0])
    assert (seeds[0][2] != seeds[1][0]).any()


@pytest.mark.parametrize("stripes", [1, 2])
@pytest.mark.parametrize("format", ["mx8", "float16"])
def test_each_stripe_has_the_rates_of_its_slices(format: str, stripes: int) -> None:
    """Of two heads, each of two pairs of slices; the last one is half empty."""
    config = PimConfig(format=format, groups=4, banks=4, stripes=stripes)
    lanes, head = config.lanes, 7 * config.lanes // 2
    c = np.random.default_rng(1).uniform(0, 1, (2, 2, head))
    layout = Layout(config, (("update", True),), head, 64, 2, 2)
    k, v = np.ones((2, 2, head)), np.ones((2, 2, 64))
    held = _held(layout, Work(0, 0, Operands(q=k, k=k, v=v, c=c)), [False, False])
    names = [f"c{n}" for n in range(lanes // 16)]
    rates = np.concatenate([held[name].view("<u2") for name in names], axis=-1)
    rates = rates.reshape(2, -1, 2, lanes)  # token, slot, bank, lane
    wide = np.zeros((2, 2, 4 * lanes))
    wide[..., :head] = c
    slices = rate.codes(wide).reshape(2, 2, 2, 2, lanes)  # token, head, pair of slices, bank, lane
    assert layout.parts == 2 * stripes
    for item, pair, stripe in np.ndindex(2, 2, stripes):
        slot = (2 * item + pair) * stripes + stripe
        np.testing.assert_array_equal(rates[:, slot], slices[:, item, pair])


@pytest.mark.parametrize("head", [1, 64])
def test_a_rate_of_a_whole_head_is_one_register(head: int) -> None:
    """Of 16 alike codes, also where a head has a single column."""
    k, v = np.ones((2, 2, head)), np.ones((2, 2, 32))
    c = np.array([[[0.25], [0.5]], [[0.75], [0.125]]])  # token, head
    layout = Layout(PimConfig(groups=1, banks=4), (("update", True),), head, 32, 2, 2)
    held = _held(layout, Work(0, 0, Operands(q=k, k=k, v=v, c=c)), [False, False])
    assert sorted(held) == ["c0", "k", "q", "v"]
    rates = held["c0"].view("<u2").reshape(2, 2, -1)
    assert (rates == rate.codes(c)).all()
