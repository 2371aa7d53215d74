"""hdl/qr/numbers: bit for bit what models/qr/arith says."""

from __future__ import annotations

import numpy as np

from penstock.hdl.qr.numbers import Floor, Times
from penstock.models.numerics.formats import float32
from penstock.models.qr.arith import codes as codes_of
from penstock.models.qr.arith import from_integer, mul, numbers, to_label
from penstock.models.qr.schedule import FLOOR, MUL
from testbench.operands import mixed_codes
from testbench.vectors import run_vectors


def test_times():
    source = np.random.default_rng(1)
    (w,) = mixed_codes(float32, 200_000, 1, 1)
    x = source.integers(-255, 256, len(w))
    x[:4000] = source.choice([-255, -128, -1, 0, 1, 2, 127, 255], 4000)
    result = run_vectors(Times(), {"w": w, "x": x & 0x1FF}, ["o"], MUL)["o"]
    assert np.array_equal(result, codes_of(mul(numbers(w), from_integer(x))))


def test_floor():
    (a,) = mixed_codes(float32, 200_000, 1, 2)
    source = np.random.default_rng(3)
    whole = source.integers(-(1 << 31), 1 << 31, 50_000) >> source.integers(0, 31, 50_000)
    a = np.concatenate(
        [
            a,
            codes_of(from_integer(whole)),
            codes_of((whole + source.random(50_000)).astype(np.float32)),
        ]
    )
    result = run_vectors(Floor(), {"a": a}, ["o", "inexact", "large", "label"], FLOOR)
    value = np.asarray(numbers(float32.canonical(a)), dtype=np.float64)
    large = ~(np.abs(value) < 2.0**31)
    assert np.array_equal(result["large"] != 0, large)
    assert np.array_equal(result["label"], to_label(value))
    some = value[~large]
    low = ((result["o"] ^ (1 << 31)) - (1 << 31))[~large]
    assert np.array_equal(low, np.floor(some)) and np.array_equal(
        low + result["inexact"][~large], np.ceil(some)
    )
