"""Small floats and OCP's block formats against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from penstock_studies.formats.ocp import OCP, SMALL
from penstock_studies.formats.quantised import NAMES, quantiser

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("name", TYPES)
def test_small_floats_are_those_of_ml_dtypes(name):
    format, kind = SMALL[name], TYPES[name]
    codes = np.arange(1 << format.width, dtype=np.uint8)
    theirs = codes.view(kind).astype(np.float64)
    mine = format.decode(codes)
    finite = np.isfinite(theirs)
    assert (mine[finite] == theirs[finite]).all() and not np.isfinite(mine[~finite]).any()
    # every float16 within the range, among them all ties
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    values = values[np.isfinite(values) & (np.abs(values) <= format.largest)]
    theirs = values.astype(np.float32).astype(kind).view(np.uint8)
    assert (format.encode(values) == theirs).all()
    assert format.decode(format.encode([1e9, -1e9])).tolist() == [format.largest, -format.largest]


@pytest.mark.parametrize("name", OCP)
def test_microscaled_groups(name):
    format, rng = OCP[name], np.random.default_rng(4)
    values = rng.normal(size=(50, 64)) * np.exp(rng.normal(size=(50, 1)) * 9)
    scales, codes = format.encode(values)
    groups = values.reshape(50, 2, 32)
    exponent = np.floor(np.log2(np.abs(groups).max(axis=-1))) - format.element.largest_exponent
    assert (scales == exponent + 127).all()
    if name == "mxint8":
        whole = np.clip(np.rint(np.ldexp(groups, 6 - exponent[..., None].astype(int))), -127, 127)
        assert (codes == whole.astype(np.int8).view(np.uint8)).all()
    else:
        kind = TYPES[name.rpartition("-")[2] if "-" in name else "e2m1"]
        scaled = np.clip(
            np.ldexp(groups, -exponent[..., None].astype(int)),
            -format.element.largest,
            format.element.largest,
        )
        assert (codes == scaled.astype(np.float32).astype(kind).view(np.uint8)).all()
    assert (format.quantise(np.zeros(32)) == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_format_rounds_numbers(name):
    rng = np.random.default_rng(5)
    values = rng.uniform(0.5, 1, size=(3, 32)) * rng.choice([-1, 1], size=(3, 32))
    out = quantiser(name).quantise(values)
    assert out.shape == values.shape and np.abs(out - values).max() <= 0.26
    assert (quantiser(name).quantise(out) == out).all()
    if name not in ("float16", "bfloat16", "float32"):
        drawn = quantiser(name).quantise(values, rng.integers(0, 256, values.shape))
        assert np.abs(drawn - values).max() <= 0.51
