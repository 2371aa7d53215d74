"""exp, log, sigmoid, tanh and gaussian on codes: definitions, golden results, latency, cost and error bounds.

* `gaussian(x)` = exp(−x²); `sigmoid(x)` = 1 / (1 + exp(−x)); `exp`, `log` (natural) and `tanh` are what they are called.
* Exact: exp(0) = 1, log(1) = 0, sigmoid(0) = 1/2, tanh(0) = 0, tanh(−x) = −tanh(x), gaussian(0) = 1,
  gaussian(−x) = gaussian(x); sigmoid and gaussian lie in [0, 1], tanh in [−1, 1].
* `Float`: NaN gives the canonical NaN; exp(∞) = ∞, exp(−∞) = 0; log(±0) = −∞, log(x < 0) = NaN, log(∞) = ∞; results
  below the smallest normal number become zero, beyond the largest infinity.
* `Fixed`: results saturate; log(0) is the lowest number and log(x < 0) is 0.
* All else is within `error_bound`.

Every function is a `Pipeline`: pre-processing to a table index and a position t within the segment, a piecewise
polynomial (coefficients of `tables`) by Horner's rule, post-processing that rounds once. The polynomial is computed with
`_GUARD` bits below the last place of 1 in the format; each step cuts off at that unit. A stage holds one multiplication,
one table read or one shift over many places, with an addition or two at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import formats, latency
from .formats import Fixed, Float, Format
from .pipeline import Pipeline, Wire
from .tables import LN2, LOG2E, Columns, constant, octaves, smallest_degree, uniform

FUNCTIONS = ("exp", "log", "sigmoid", "tanh", "gaussian")

#: Bits below the last place of the result's format in which Float (and Fixed) polynomials are computed.
_GUARD, _FIXED_GUARD = 6, 5
#: Largest error of the polynomials: 2**−_FIT units of the last place of 1 (Float), 2**−_FIXED_FIT of Fixed's last place.
_FIT, _FIXED_FIT = 2.5, 0.75


def _horner(p: Pipeline, columns: Sequence[Wire], t: Wire, t_bits: int, fuse: bool) -> Wire:
    """The polynomial at t · 2**−t_bits; the result belongs to the stage before the current one.

    A step multiplies in one stage and adds in the next; `fuse`: in the same one, if one multiplier does. t is cut to the
    bits that matter for the size of its factor.
    """
    acc = columns[-1]
    if len(columns) == 1:
        p.next_stage()
    for column in reversed(columns[:-1]):
        keep = min(t_bits, acc.width + 1)
        parts = p.product(acc, t >> (t_bits - keep), keep)
        if len(parts) > 1 or not fuse:
            p.next_stage()
        acc = p.total([*parts, column])
        p.next_stage()
    return acc


def _lookup(p: Pipeline, columns: Columns, address: Wire) -> list[Wire]:
    """Read a table and leave a stage for its output registers."""
    wires = p.read(columns, address)
    p.next_stage()
    return wires


def _round_even(x: Wire, shift: int) -> Wire:
    """x / 2**shift to nearest even."""
    return (x + ((1 << (shift - 1)) - 1) + (x >> shift).low(1)) >> shift if shift else x


def _normalise(p: Pipeline, x: Wire, bits: int, split: int) -> tuple[Wire, Wire]:
    """Shift x, below 2**bits, left until bit bits − 1 is set; returns that and the number of places. A zero stays one.

    Takes the current stage for steps of `split` places and more, and the next for the others (only one for `split` = 1).
    """
    count = p.const(0)
    step = 1 << ((bits - 1).bit_length() - 1) if bits > 1 else 0
    while step:
        if step < split <= 2 * step:
            p.next_stage()
        small = x < (1 << (bits - step))
        x = p.where(small, x.low(bits - step) << step, x)
        count = p.where(small, count + step, count)
        step >>= 1
    return x.low(bits), count


# Float -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Unpacked:
    """The fields of a Float code: `magnitude` is all but the sign; `zero` holds for subnormals too."""

    sign: Wire
    exponent: Wire
    fraction: Wire
    magnitude: Wire
    zero: Wire
    nan: Wire

    @classmethod
    def of(cls, p: Pipeline, f: Float) -> _Unpacked:
        x, m = p.input, f.fraction_bits
        magnitude = x.low(f.width - 1)
        return cls(
            x >> (f.width - 1),
            magnitude >> m,
            x.low(m),
            magnitude,
            magnitude < 1 << m,
            ~(magnitude < f.infinity + 1),
        )


def _amount(p: Pipeline, zero: Wire, far: Wire, right: Wire, most: int) -> Wire:
    """Places to shift a significand right: `right`, at most `most`, which leaves nothing; anything where `far` holds."""
    return p.where(far, 0, p.where(zero | (p.const(most) < right), most, right)).within(0, most)


def _pack(p: Pipeline, f: Float, exponent: Wire, fraction: Wire, fraction_bits: int) -> Wire:
    """The magnitude code of 2**(exponent − bias) · (1 + fraction · 2**−fraction_bits), rounded; zero below, infinity above."""
    code = (exponent << fraction_bits) + fraction
    code = _round_even(code, fraction_bits - f.fraction_bits)
    code = p.where(code < (1 << f.fraction_bits), 0, code)
    return p.where(code < f.infinity, code, f.infinity).within(0, f.infinity)


def _exp_float(f: Float) -> Pipeline:
    """2**n · (1 + p(y − n)) with y = x · log2 e, n = floor(y)."""
    p, m = Pipeline(f.width), f.fraction_bits
    u = _Unpacked.of(p, f)
    reach = f.exponent_bits - 1  # |x| >= 2**reach always overflows or vanishes
    y_bits = m + _GUARD
    top = reach + 1 + y_bits  # bits of |y|
    c_bits = y_bits + reach - 3 + max(0, 2 - m)
    parts = p.product(
        u.fraction + (1 << m), p.const(constant(LOG2E, c_bits)), c_bits + m - reach + 1 - y_bits
    )
    far = p.const(f.bias + reach - 1) < u.exponent
    right = p.const(f.bias + reach - 1) - u.exponent
    amount = _amount(p, u.zero, far, right, top)
    p.next_stage()
    y = p.total(parts).low(top)
    p.next_stage()
    y = y.shifted_right(amount)
    y = p.where(u.sign, 0 - y, y)
    p.next_stage()
    degree, j = smallest_degree("exp2", m + _FIT, y_bits)
    fraction = m + _GUARD
    t_bits = y_bits - j
    columns = _lookup(p, uniform("exp2", 1 << j, j, degree, fraction), (y >> t_bits).low(j))
    value = _horner(p, columns, y.low(t_bits), t_bits, True)
    code = _pack(p, f, (y >> y_bits) + f.bias, value.within(0, (1 << fraction) + 64), fraction)
    code = p.where(far, p.where(u.sign, 0, f.infinity), code)
    p.output = p.where(u.nan, f.nan, code)
    return p


def _log_float(f: Float) -> Pipeline:
    """ln x = E · ln 2 + p(fraction), for x = 2**E · (1 + fraction), summed in fixed point, then normalised. Of zeros −∞, of numbers below 0 NaN."""
    p, m = Pipeline(f.width), f.fraction_bits
    u = _Unpacked.of(p, f)
    fraction = m + _GUARD + 1
    degree, j = smallest_degree("log", m + 6, m)
    t_bits = m - j
    columns = _lookup(p, uniform("log", 1 << j, j, degree, fraction), u.fraction >> t_bits)
    parts = p.product(u.exponent - f.bias, p.const(constant(LN2, fraction)), 0)
    value = _horner(p, columns, u.fraction.low(t_bits), t_bits, True)
    p.stage -= 1  # the products are done since long: add them beside the last step
    exponent_part = p.total(parts)
    p.next_stage()
    result = value + exponent_part
    negative = result < 0
    size = p.where(negative, 0 - result, result)
    bits = constant((f.bias + 2) * LN2, fraction).bit_length()
    size = size.within(0, (1 << bits) - 1)
    p.next_stage()
    normal, count = _normalise(p, size, bits, 8)
    empty = normal < (1 << (bits - 1))
    p.next_stage()
    code = _pack(p, f, (f.bias + bits - 1 - fraction) - count, normal.low(bits - 1), bits - 1)
    code = p.where(empty, 0, code)
    code = p.where(negative, code + f.sign_bit, code)
    infinite = u.magnitude.equals(f.infinity)
    code = p.where(u.zero, f.infinity + f.sign_bit, p.where(infinite, f.infinity, code))
    p.output = p.where(u.nan | (u.sign & ~u.zero), f.nan, code)
    return p


def _reach(function: str, error_bits: int) -> int:
    """The least r >= 0 so that from 2**r on the function is within 2**−error_bits of its limit."""
    ln = (error_bits + 1 if function == "tanh" else error_bits) * math.log(2)
    at = {"sigmoid": ln, "tanh": ln / 2, "gaussian": math.sqrt(ln)}[function]
    return max(0, math.ceil(math.log2(at)))


def _bell_float(function: str, f: Float) -> Pipeline:
    """sigmoid and gaussian: a table of |x| in fixed point up to 2**reach; beyond, the limit."""
    p, m = Pipeline(f.width), f.fraction_bits
    u = _Unpacked.of(p, f)
    reach = min(_reach(function, m + 4), f.bias + 1)
    fraction = m + _GUARD
    x_bits = max(m + (4 if function == "sigmoid" else 6), m - reach + 1)
    degree, j = smallest_degree(function, m + _FIT, x_bits, spare=reach)
    t_bits, top = x_bits - j, reach + x_bits
    right = p.const(f.bias + reach - 1) - u.exponent
    far = right < 0
    amount = _amount(p, u.zero, far, right, top)
    p.next_stage()
    x = ((u.fraction + (1 << m)) << (reach - 1 - m + x_bits)).shifted_right(amount).low(top)
    p.next_stage()
    columns = _lookup(p, uniform(function, 1 << (reach + j), j, degree, fraction), x >> t_bits)
    value = _horner(p, columns, x.low(t_bits), t_bits, True)
    one = 1 << fraction
    if function == "sigmoid":
        value = p.where(
            far | (p.const(one) < value),
            p.where(u.sign, 0, one),
            p.where(u.sign, one - value, value),
        )
    else:
        value = p.where(far | (value < 0), 0, p.where(p.const(one) < value, one, value))
    normal, count = _normalise(p, value.within(0, one), fraction + 1, 8)
    empty = normal < one
    p.next_stage()
    code = _pack(p, f, f.bias - count, normal.low(fraction), fraction)
    p.output = p.where(u.nan, f.nan, p.where(empty, 0, code))
    return p


def _tanh_float(f: Float) -> Pipeline:
    """tanh(x) / 2**e by octaves [2**e, 2**(e + 1)) of |x|, for equal relative accuracy in all; x itself below them."""
    p, m = Pipeline(f.width), f.fraction_bits
    u = _Unpacked.of(p, f)
    first = max(-((m + 2) // 2), 1 - f.bias)
    end = max(min(_reach("tanh", m + 2), f.bias + 1), first + 1)
    fraction = m + _GUARD
    degree, s = smallest_degree(
        "tanh octaves", m + _FIT - 1, m, spare=(end - first - 1).bit_length()
    )
    t_bits = m - s
    table = octaves("tanh", first, end - first, s, degree, fraction)
    address = ((u.magnitude >> t_bits) - ((first + f.bias) << s)).low(
        (len(table[0]) - 1).bit_length()
    )
    columns = _lookup(p, table, address)
    value = _horner(p, columns, u.fraction.low(t_bits), t_bits, True)
    one = 1 << fraction
    low = value < one
    exponent = p.where(u.exponent < f.bias - 1, u.exponent, f.bias - 1)
    exponent = p.where(low, exponent - 1, exponent)
    value = p.where(low, (value << 1) - one, value - one)
    if f.width > 16:
        p.next_stage()
    code = _pack(p, f, exponent, value, fraction)
    limit = p.const(f.one) < code
    far = p.const(end + f.bias - 1) < u.exponent
    code = p.where(limit | far, f.one, code)
    code = p.where(u.zero, 0, p.where(u.exponent < first + f.bias, u.magnitude, code))
    p.output = p.where(u.nan, f.nan, (u.sign << (f.width - 1)) + code)
    return p


# Fixed -----------------------------------------------------------------------------------------------------------------


def _saturate(p: Pipeline, f: Fixed, x: Wire) -> Wire:
    """The code of the integer nearest below or above that the format holds."""
    if x.hi > f.top:
        x = p.where(p.const(f.top) < x, f.top, x)
    if x.lo < -f.top - 1:
        x = p.where(x < -f.top - 1, -f.top - 1, x)
    return x.within(-f.top - 1, f.top).low(f.width)


def _symmetric_fixed(function: str, f: Fixed) -> Pipeline:
    """sigmoid, tanh and gaussian: a table of |x| up to 2**reach; beyond, the limit."""
    p, n = Pipeline(f.width), f.fraction_bits
    reach = min(_reach(function, n + 3), f.integer_bits - 1)
    full_range = (
        reach == f.integer_bits - 1
    )  # the table ends at the lowest number's magnitude: the last segment at t = 1
    fraction = n + _FIXED_GUARD
    degree, j = smallest_degree(function, n + _FIXED_FIT, n, spare=reach)
    t_bits = n - j
    x = p.input.signed(f.width)
    sign = x < 0
    size = p.where(sign, 0 - x, x)
    entries = 1 << (reach + j)
    if full_range:
        end = size.equals(1 << (f.width - 1))
        far = p.const(0)
        if t_bits:
            address = p.where(end, entries - 1, (size >> t_bits).low(reach + j))
            t = p.where(end, 1 << t_bits, size.low(t_bits))
        else:
            address, t, entries = size, p.const(0), entries + 1
    else:
        far = size >= (1 << (reach + n))
        address, t = (size >> t_bits).low(reach + j), size.low(t_bits)
    columns = _lookup(p, uniform(function, entries, j, degree, fraction), address)
    value = _horner(p, columns, t, t_bits, False)
    one = 1 << fraction
    over = p.const(one) < value if full_range else far | (p.const(one) < value)
    if function == "sigmoid":
        value = p.where(over, p.where(sign, 0, one), p.where(sign, one - value, value)).within(
            0, one
        )
    elif function == "tanh":
        value = p.where(over, p.where(sign, -one, one), p.where(sign, 0 - value, value)).within(
            -one, one
        )
    else:
        value = p.where(p.const(one) < value, one, p.where(value < 0, 0, value)).within(0, one)
        value = value if full_range else p.where(far, 0, value)
    if f.width > 16:
        p.next_stage()
    p.output = _saturate(p, f, _round_even(value, fraction - n))
    return p


def _exp_fixed(f: Fixed) -> Pipeline:
    """2**n · (1 + p(y − n)) with y = x · log2 e, n = floor(y), shifted by n."""
    p, n_bits, w = Pipeline(f.width), f.fraction_bits, f.width
    x = p.input.signed(w)
    span = max(n_bits + 2, f.integer_bits - 1) * math.log(
        2
    )  # beyond it: a quarter of the last place, or saturated
    reach = min(math.ceil(math.log2(span)), f.integer_bits - 1)
    limit = 1 << (reach + n_bits)
    huge, tiny = p.const(limit - 1) < x, x < -limit
    y_bits = fraction = w + _FIXED_GUARD - 1
    c_bits = w + 2 + f.integer_bits.bit_length()
    near = x.low(reach + n_bits + 1).signed(reach + n_bits + 1)
    if w > 16:
        p.next_stage()
    parts = p.product(near, p.const(constant(LOG2E, c_bits)), n_bits + c_bits - y_bits)
    p.next_stage()
    y = p.total(parts)
    p.next_stage()
    degree, j = smallest_degree("exp2", w - 1 + _FIXED_FIT, y_bits)
    t_bits = y_bits - j
    columns = _lookup(p, uniform("exp2", 1 << j, j, degree, fraction), (y >> t_bits).low(j))
    value = _horner(p, columns, y.low(t_bits), t_bits, False) + (1 << fraction)
    power = y >> y_bits
    huge = huge | (~tiny & (p.const(f.integer_bits - 2) < power))
    right = (fraction - n_bits - 1) - power  # keeps one bit below the last place
    most = fraction + 2
    amount = p.where(right < 0, 0, p.where(p.const(most) < right, most, right)).within(0, most)
    p.next_stage()
    value = value.within(0, (2 << fraction) + 64).shifted_right(amount)
    p.next_stage()
    result = p.where(huge, f.top, p.where(tiny, 0, (value + 1) >> 1))
    p.output = _saturate(p, f, result)
    return p


def _log_fixed(f: Fixed) -> Pipeline:
    """E · ln 2 + p(fraction) of the normalised integer."""
    p, n, bits = Pipeline(f.width), f.fraction_bits, f.width - 1
    x = p.input.signed(f.width)
    positive = p.const(0) < x
    zero = x.equals(0)
    normal, count = _normalise(p, x.low(bits), bits, 8 if f.width > 18 else 1)
    p.next_stage()
    m = bits - 1
    fraction = n + _FIXED_GUARD
    degree, j = smallest_degree("log", n + _FIXED_FIT, m)
    t_bits = m - j
    columns = p.read(uniform("log", 1 << j, j, degree, fraction), normal.low(m) >> t_bits)
    p.stage -= 1
    powers = p.read(((tuple(constant((m - n - c) * LN2, fraction) for c in range(bits)),)), count)
    p.next_stage()
    value = _horner(p, columns, normal.low(t_bits), t_bits, False) + powers[0]
    p.next_stage()
    result = _saturate(p, f, _round_even(value, fraction - n))
    p.output = p.where(positive, result, p.where(zero, f.top + 1, 0))
    return p


# Everything together ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def pipeline(op: str, format: Format) -> Pipeline:
    """The pipeline of a function in a format; raises ValueError for an unknown function."""
    if op not in FUNCTIONS:
        raise ValueError(f"no function {op!r}; there are {', '.join(FUNCTIONS)}")
    if isinstance(format, Float):
        if op in ("sigmoid", "gaussian"):
            return _bell_float(op, format)
        return {"exp": _exp_float, "log": _log_float, "tanh": _tanh_float}[op](format)
    assert isinstance(format, Fixed)
    if op in ("exp", "log"):
        return (_exp_fixed if op == "exp" else _log_fixed)(format)
    return _symmetric_fixed(op, format)


@lru_cache(maxsize=64)
def _all_results(op: str, format: Format) -> NDArray[np.int64]:
    return pipeline(op, format).run(np.arange(1 << format.width, dtype=np.int64))


def evaluate(op: str, codes: ArrayLike, format: Format) -> NDArray[np.int64]:
    """Apply `exp log sigmoid tanh gaussian` to codes, elementwise. Formats of up to 16 bits are looked up whole."""
    codes = np.asarray(codes, dtype=np.int64)
    if format.width <= 16:
        return _all_results(op, format)[codes]
    return pipeline(op, format).run(codes)


@dataclass(frozen=True)
class ErrorBound:
    """|result − exact| <= max(ulp · (unit in the last place of the exact value), absolute), saturation and overflow apart.

    The unit in the last place of a Float value v is 2**(floor(log2 |v|) − fraction_bits); Fixed has absolute bounds only.
    """

    ulp: float
    absolute: float


def error_bound(op: str, format: Format) -> ErrorBound:
    """The stated error of a function; for Float it allows for results that become zero below the smallest normal number."""
    if op not in FUNCTIONS:
        raise ValueError(f"no function {op!r}; there are {', '.join(FUNCTIONS)}")
    if isinstance(format, Fixed):
        return ErrorBound(0.0, 1.5 * 2.0**-format.fraction_bits)
    assert isinstance(format, Float)
    m, least = format.fraction_bits, format.smallest_normal
    if op in ("exp", "tanh"):
        return ErrorBound(1.0 if op == "exp" else 1.5, least * (1 + 2.0**-m))
    bound = 2.0 ** -(m + 4) if op == "log" else (1.0 if m <= 10 else 1.25) * 2.0 ** -(m + 1)
    return ErrorBound(1.0 if op == "log" else 0.0, bound if least <= bound / 4 else bound + least)


def _cost(op: str) -> Callable[[Format, tuple[int, int]], latency.Cost]:
    return lambda format, dsp: _estimate(op, format, dsp)


@lru_cache(maxsize=128)
def _estimate(op: str, format: Format, dsp: tuple[int, int]) -> latency.Cost:
    """Counted from the pipeline; a multiplier for each product, as its factors fit the smallest multiplier's ports.

    A look-up table makes 1.4 bits of an adder or multiplexer, or two of these of a shifter's stage: the average of nine units
    placed on an ECP5. Tables of more than 1 kbit are block RAM of 18 kbit, 512 × 36 at the widest.
    """
    p = pipeline(op, format)
    lut = ff = 0
    multipliers = blocks = 0
    last: dict[int, int] = {}
    for wire in p.wires:
        for a in wire.args:
            if isinstance(a, Wire):
                last[a.number] = max(last.get(a.number, 0), wire.stage - (wire.kind == "read"))
    for wire in p.wires:
        ff += (
            wire.width * max(0, last.get(wire.number, 0) - wire.stage)
            if wire.kind != "const"
            else 0
        )
        if wire.kind in ("add", "sub", "where", "lt", "eq"):
            lut += max(wire.width, *(a.width // 2 for a in wire.args))
        elif wire.kind == "vshr":
            lut += wire.width * wire.args[1].width // 2
        elif wire.kind == "mul":
            multipliers += 1
    for table in p.tables:
        width = sum(table.widths)
        if table.depth * width > 1024:
            port = 36 if table.depth <= 512 else 18 if table.depth <= 1024 else 9
            blocks += -(-width // port)
        else:
            lut += width * table.depth // 16
    return latency.Cost(lut * 7 // 10, ff + format.width, multipliers, blocks)


def _golden(op: str) -> Callable[..., NDArray[np.int64]]:
    return lambda format, codes: evaluate(op, codes, format)


def _depth(op: str) -> Callable[[Format], int]:
    return lambda format: pipeline(op, format).latency


for _op in FUNCTIONS:
    formats.register(_op, 1, _golden(_op))
    latency.register(_op, _depth(_op), _cost(_op))
