"""The unit's arithmetic beside exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.numerics.floating import float16
from penstock.models.numerics.mx import FAMILY
from penstock.models.pim.unit import Float16Unit, MxUnit

MX8 = FAMILY["mx8"]


def mx(x):
    return MX8.pack(MX8.encode(x))


def number(data):
    return MX8.decode(MX8.unpack(data))


def test_an_update_is_within_half_a_place():
    """The error of the sum is that of its rounding, and what aligning drops: 2⁻⁴ of the products' place."""
    rng, unit = np.random.default_rng(1), MxUnit()
    for scale in (1.0, 1e-3, 1e3):
        state, d, k = (mx(rng.normal(size=(400, 32)) * s) for s in (scale, 1.0, 1.0))
        v = mx(rng.normal(size=(400, 32)))
        column = rng.integers(0, 32, 400)
        element = unit.element(v, column)
        value = np.take_along_axis(number(v), column[:, None], axis=-1)
        exact = number(d) * number(state) + number(k) * value
        new, saturated = unit.update(state, d, k, element, None)
        assert not saturated.any()
        groups = np.abs(exact).reshape(400, 2, 16).max(axis=-1)
        place = 2.0 ** (np.floor(np.log2(groups)) - 4)
        # the largest may carry to a new exponent: a whole place, and half of one more bit
        error = np.abs(number(new) - exact).reshape(400, 2, 16).max(axis=-1)
        assert (error <= place * (0.5 + 1 / 16)).all()


def test_stochastic_updates_have_no_bias():
    unit, rng = MxUnit(), np.random.default_rng(3)
    shape = (20000, 32)
    state = np.broadcast_to(mx(np.full(32, 1.0)), shape)
    d = np.broadcast_to(mx(np.full(32, 1.0)), shape)
    k = np.broadcast_to(mx(np.full(32, 1 / 256)), shape)
    v = np.broadcast_to(mx(np.full(32, 1.0)), shape)
    element = unit.element(v, np.zeros(shape[0], dtype=np.int64))
    still, _ = unit.update(state, d, k, element, None)
    assert (number(still) == 1.0).all()  # to nearest, a small addend is lost
    new, _ = unit.update(state, d, k, element, rng.integers(0, 256, shape, dtype=np.uint8))
    mean = number(new).mean()
    assert abs(mean - (1 + 1 / 256)) < 4 * (1 / 32) * 0.4 / np.sqrt(new.size)


def test_output_and_results():
    rng, unit = np.random.default_rng(4), MxUnit()
    state, q = mx(rng.normal(size=(50, 32, 32))), mx(rng.normal(size=(50, 1, 32)))
    q = np.broadcast_to(q, state.shape)
    sums = unit.output(state, q)
    value = np.ldexp(sums.value.astype(float), sums.exponent - 254 - 16)
    exact = (number(state) * number(q)).sum(axis=-1)
    assert np.abs(value - exact).max() < 2.0**-10
    out, saturated = unit.results(sums)
    assert not saturated.any()
    top = np.abs(exact).reshape(50, 2, 16).max(axis=-1)
    error = np.abs(number(out) - exact).reshape(50, 2, 16).max(axis=-1)
    assert (error <= top / 32).all()
    # the rounding is that of the format
    assert np.mean(number(out) == MX8.quantise(value)) > 0.999


def test_saturation_and_underflow_are_known():
    unit = MxUnit()
    large = mx(np.full(32, 1e38))
    column = np.zeros((), dtype=np.int64)
    new, lost = unit.update(large, large, large, unit.element(large, column), None)
    assert lost == 2 and MX8.unpack(new).exponent.tolist() == [254, 254]
    small = mx(np.full(32, 1e-30))
    new, lost = unit.update(small, small, small, unit.element(small, column), None)
    assert lost == 0 and not new.any()


@pytest.mark.parametrize("wide", [False, True])
def test_float16(wide):
    rng, unit = np.random.default_rng(6), Float16Unit()
    code = lambda x: float16.encode(x).astype("<u2").view(np.uint8)
    shape = (200, 32, 16)
    spread = np.exp(rng.normal(size=shape) * 1.5) if wide else 1.0
    state, q = code(rng.normal(size=shape) * spread), code(rng.normal(size=shape))
    a, b = (float16.decode(x.view("<u2").astype(np.int64)) for x in (state, q))
    sums = unit.output(state, q)
    value = np.ldexp(sums.value.astype(float), sums.exponent - 54)
    exact = (a * b).sum(axis=-1)
    assert (np.abs(value - exact) <= 16 * np.abs(a * b).max(axis=-1) * 2.0**-24).all()
    out, lost = unit.results(sums)
    assert not lost.any() and (out.view("<u2").astype(int) == float16.encode(value)).all()
