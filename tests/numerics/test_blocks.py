"""Block formats: against their definitions in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.models.numerics.lfsr import Lfsr, seed_words
from penstock.models.numerics.mx import FAMILY, Blocks

MX8 = FAMILY["mx8"]


def _lead(x: Fraction) -> int:
    e = 0
    while x >= Fraction(2) ** (e + 1):
        e += 1
    while x < Fraction(2) ** e:
        e -= 1
    return e


def _by_the_book(bits: int, numbers: list[Fraction], random: list[int] | None):
    """The group's exponent, microexponents and magnitudes, in exact fractions."""

    def rounded(x: Fraction, unit: Fraction, draw: int | None) -> int:
        if draw is None:
            return int(x / unit + Fraction(1, 2))
        return (int(x / unit * 256) + draw) >> 8

    sizes = [abs(x) for x in numbers]
    if not any(sizes):
        return 0, [0] * 8, [0] * 16
    highest = max(_lead(x) for x in sizes if x)

    def exponent(lane: int) -> int | None:
        """One more than that of the leading one where rounding carries; below the highest, where it may."""
        if not sizes[lane]:
            return None
        lead = _lead(sizes[lane])
        draw = None if random is None else random[lane] if lead == highest else 255
        return lead + (rounded(sizes[lane], Fraction(2) ** (lead - bits + 1), draw) == 1 << bits)

    each = [exponent(lane) for lane in range(16)]
    top = max(e for e in each if e is not None)
    micro, out = [], []
    for pair in range(8):
        own = [e for e in each[2 * pair : 2 * pair + 2] if e is not None]
        micro.append(int(not own or max(own) < top))
        unit = Fraction(2) ** (top - micro[-1] - bits + 1)
        for lane in (2 * pair, 2 * pair + 1):
            m = rounded(sizes[lane], unit, None if random is None else random[lane])
            out.append(-m if numbers[lane] < 0 else m)
    return top + 127, micro, out


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("stochastic", [False, True])
def test_groups_are_encoded_as_defined(name, stochastic):
    format, rng = FAMILY[name], np.random.default_rng(1)
    values = np.ldexp(
        rng.integers(-(1 << 12), 1 << 12, (300, 16)), rng.integers(-14, -2, (300, 16))
    ).astype(float)
    values[::7] = np.ldexp(values[::7], rng.integers(-40, 40, (len(values[::7]), 1)))
    values[3] = 0
    values[5, 2:] = 0
    values[6] = 63.75  # every number carries
    values[8, :] = np.arange(16) * 63.5
    random = rng.integers(0, 256, values.shape) if stochastic else None
    blocks = format.encode(values, random)
    for row, x in enumerate(values):
        draws = None if random is None else random[row].tolist()
        book = _by_the_book(format.magnitude_bits, [Fraction(v) for v in x], draws)
        mine = (
            int(blocks.exponent[row, 0]),
            blocks.micro[row, 0].tolist(),
            blocks.value[row, 0].tolist(),
        )
        assert mine == book
    assert np.abs(blocks.value).max() <= format.largest_magnitude


@pytest.mark.parametrize("name", FAMILY)
def test_groups_are_packed_and_unpacked(name):
    format, rng = FAMILY[name], np.random.default_rng(2)
    values = rng.normal(size=(5, 64)) * np.exp(rng.normal(size=(5, 1)) * 20)
    blocks = format.encode(values)
    back = format.unpack(format.pack(blocks))
    for part in ("exponent", "micro", "value"):
        assert (getattr(back, part) == getattr(blocks, part)).all()
    assert (format.encode(format.decode(blocks)).value == blocks.value).all()
    assert format.pack(blocks).shape[-1] == 4 * -(-format.group_bits // 8)


def test_mx8_takes_eight_bits_a_number():
    assert MX8.bits == 8 and MX8.group_bits == 128


def test_groups_beyond_the_range():
    large = MX8.encode(np.full(16, 1e300))
    assert large.exponent == 254 and (large.value == 63).all()
    tiny = MX8.encode(np.full(16, 1e-300))
    assert tiny.exponent == 0 and (tiny.value == 0).all()
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinity"):
            MX8.encode([wrong] * 16)
    # what rounds beyond the largest number of all becomes it
    place = 2.0**122
    wide = np.array([62.4, 63, 63.49, 63.5, 63.75, 64, 1000]) * place
    for x, held in zip(wide, [62, 63, 63, 63, 63, 63, 63], strict=True):
        group = np.r_[-x, x, 1.0 * place, np.zeros(13)]
        assert MX8.quantise(group)[:3].tolist() == [-held * place, held * place, place]


def test_products_are_exact():
    rng = np.random.default_rng(3)
    a, b = (MX8.encode(rng.normal(size=(200, 16))) for _ in range(2))
    value, exponent = MX8.product(a, b)
    exact = MX8.decode(a) * MX8.decode(b)
    assert (np.ldexp(value.astype(float), exponent[..., None]).reshape(exact.shape) == exact).all()
    assert np.abs(value).max() < 1 << 14
    one = Blocks(b.exponent, b.micro, b.value)
    scaled, power = MX8.scaled(a, one.value[..., 3], one.micro[..., 1], one.exponent)
    exact = MX8.decode(a) * MX8.decode(b)[..., 3:4]
    assert (np.ldexp(scaled.astype(float), power[..., None]).reshape(exact.shape) == exact).all()


def test_stochastic_rounding_has_no_bias():
    lfsr = Lfsr(seed_words(7, np.arange(16)))
    value = np.full((4096, 16), 0.701)
    value[:, 0] = 63.7  # between the last magnitude and the next exponent
    random = lfsr.bytes(4096).T
    mean = MX8.quantise(value, random).mean(axis=0)
    # 4096 draws of a place of 2 (the group's) and its variance
    assert abs(mean[0] - 63.7) < 4 * 0.5 * 2 / 64
    assert np.abs(mean[1:] - 0.701).max() < 4 * 0.5 * 2 / 64


def test_the_shift_register_by_bits():
    seeds = [seed_words(5, k) for k in range(3)]
    words = Lfsr(seeds).words(20000)
    for stream in range(3):
        low, high = (int(word) for word in seeds[stream])
        bits = [low >> k & 1 for k in range(64)] + [high >> k & 1 for k in range(64)]
        for n in range(128, 64 * 400):
            bits.append(bits[n - 127] ^ bits[n - 64])
        for t in range(398):
            own = sum(b << k for k, b in enumerate(bits[64 * (t + 2) : 64 * (t + 3)]))
            assert own == int(words[t, stream])
    w = words
    step = w[1:-1] ^ (w[:-2] >> np.uint64(1)) ^ (w[1:-1] << np.uint64(63))
    assert (step == w[2:]).all()
    parts = Lfsr(seeds)
    assert (np.concatenate([parts.words(k) for k in (1, 9, 300, 9000, 690)]) == w[:10000]).all()
    assert abs(np.unpackbits(w.view(np.uint8)).mean() - 0.5) < 0.002
