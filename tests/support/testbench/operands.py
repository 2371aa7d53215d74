"""Operands that go where arithmetic goes wrong: ties, cancellation, the edges of the range, special codes."""

from __future__ import annotations

import itertools

import numpy as np

from penstock.models.numerics.formats import Codes, Fixed, Float, Format

__all__ = ["mixed_codes", "special_codes"]


def special_codes(format: Format) -> Codes:
    """Zeros, ones, the ends of the range and their neighbours; for a float infinities, NaNs (two of each sign) and subnormals too."""
    if isinstance(format, Float):
        f = format.fraction_bits
        full = (1 << f) - 1
        magnitudes = {
            0,
            1,
            full,
            1 << f,
            (1 << f) + 1,
            format.one - 1,
            format.one,
            format.one + 1,
            format.one + (1 << f),
            format.infinity - 1,
            format.infinity,
            format.infinity + 1,
            format.nan,
            format.one ^ 1,
            3 << (f - 1),
        }
        return np.array(sorted(m | s for m in magnitudes for s in (0, format.sign_bit)), np.int64)
    assert isinstance(format, Fixed)
    one = 1 << format.fraction_bits
    integers = {0, 1, 2, 3, one - 1, one, one + 1, one // 2, format.top - 1, format.top}
    return np.unique(format.to_codes(sorted(integers | {-i for i in integers} | {-format.top - 1})))


def mixed_codes(format: Format, count: int, operands: int, seed: int) -> tuple[Codes, ...]:
    """Arrays of `count` codes, one for each operand: every combination of special codes first (as far as they fit), then random ones.

    A quarter of the random codes is uniform; the others have exponents close together (so that sums cancel and round), exponents at the
    edges of the range, few significant bits (so that results tie), or are special.
    """
    rng = np.random.default_rng(seed)
    special = special_codes(format)
    directed = np.array(
        list(itertools.islice(itertools.product(special, repeat=operands), count)), np.int64
    ).T
    return tuple(
        np.concatenate([head, _random(format, count - len(head), special, rng)])
        for head in directed
    )


def _random(format: Format, count: int, special: Codes, rng: np.random.Generator) -> Codes:
    uniform = rng.integers(0, 1 << format.width, count)
    chosen = special[rng.integers(0, len(special), count)]
    kind = rng.integers(0, 16, count)
    if isinstance(format, Float):
        f, rest = format.fraction_bits, uniform & ~np.int64(format.infinity)
        top = (1 << format.exponent_bits) - 1
        near = rest | np.clip(format.bias + rng.integers(-6, 7, count), 0, top) << f
        edge = (
            rest
            | rng.choice(
                np.array([0, 1, 2, top // 2 - f, top // 2 + f, top - 2, top - 1]).clip(0, top),
                count,
            )
            << f
        )
        short = uniform & ~((np.int64(1) << rng.integers(0, f + 1, count)) - 1)
        return np.select(
            [kind < 4, kind < 9, kind < 12, kind < 15], [uniform, near, edge, short], chosen
        )
    assert isinstance(format, Fixed)
    scaled = format.to_codes(format.to_integers(uniform) >> rng.integers(0, format.width, count))
    short = uniform & ~((np.int64(1) << rng.integers(0, format.width, count)) - 1)
    return np.select([kind < 4, kind < 12, kind < 15], [uniform, scaled, short], chosen)
