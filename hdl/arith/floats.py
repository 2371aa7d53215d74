"""Pipelines of IEEE-style floats, bit for bit as `models.numerics.formats.Float` computes.

Each function takes a pipeline under construction and operands (codes), adds its ranks, and returns the result's register. Stages hold one wide
adder, shifter or zero count each.
"""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Mux, Value

from penstock.models.numerics.formats import Float
from penstock.models.numerics.latency import digits, digits_per_stage

from .digits import divide, square_root
from .pipeline import (
    Pipeline,
    Unpacked,
    align,
    exponent_shape,
    kept,
    leading_zeros,
    partial_products,
    rounded,
    total,
    truth,
)


def add(pipe: Pipeline, format: Float, a: Value, b: Value, negate: bool = False) -> Value:
    """a + b, or a − b: order by magnitude; align; add; normalise; round. Narrow formats align and add in one stage."""
    x, y = Unpacked(a, format), Unpacked(b, format)
    y_sign = y.sign ^ negate
    differ = x.sign ^ y_sign
    swap = pipe.wire(x.magnitude < y.magnitude, name="swap")
    f = format.fraction_bits
    s = pipe.rank(
        exponent=Mux(swap, y.exponent, x.exponent),
        distance=Mux(
            swap,
            (y.exponent - x.exponent)[: format.exponent_bits],
            (x.exponent - y.exponent)[: format.exponent_bits],
        ),
        large=Mux(swap, y.significand, x.significand)[: f + 1],
        small=Mux(swap, x.significand, y.significand)[: f + 1],
        differ=differ,
        sign=Mux(swap, y_sign, x.sign),
        zero_sign=x.sign & y_sign,
        inf=x.inf | y.inf,
        nan=x.nan | y.nan | (x.inf & y.inf & differ),
    )
    # two more bits and the sticky bit below are enough: only a distance of 0 or 1 can shift the sum left by more than one
    aligned = align(Cat(Const(0, 2), s.small), s.distance)
    if format.width > 17:
        s = pipe.rank(
            aligned=aligned,
            **{name: value for name, value in vars(s).items() if name not in ("distance", "small")},
        )
        aligned = s.aligned
    # invert and carry in: one adder for sum and difference
    addend = aligned ^ s.differ.replicate(len(aligned))
    both = (Cat(Const(0, 3), s.large, Const(0, 1)) + Cat(addend, s.differ) + s.differ)[: f + 5]
    s = pipe.rank(
        both=both,
        **{name: getattr(s, name) for name in ("exponent", "sign", "zero_sign", "inf", "nan")},
    )
    zeros, some = leading_zeros(s.both)
    normal = (s.both << zeros)[: f + 5]
    s = pipe.rank(
        significand=normal[4:],
        guard=normal[3],
        sticky=normal[:3].any(),
        zero=~some & ~s.inf,
        exponent=pipe.wire(
            Cat(s.exponent, Const(0, 1)).as_signed() + 1 - zeros,
            exponent_shape(format),
            name="exponent",
        ),
        sign=s.sign,
        zero_sign=s.zero_sign,
        inf=s.inf,
        nan=s.nan,
    )
    return rounded(pipe, format, s, s.significand, s.guard, s.sticky, zero_sign=s.zero_sign)


def sub(pipe: Pipeline, format: Float, a: Value, b: Value) -> Value:
    return add(pipe, format, a, b, negate=True)


def mul(pipe: Pipeline, format: Float, a: Value, b: Value) -> Value:
    """Multiply; add the partial products where there are several; round."""
    x, y = Unpacked(a, format), Unpacked(b, format)
    p = format.fraction_bits + 1
    parts = partial_products(x.normal_significand, y.normal_significand)
    s = pipe.rank(
        exponent=pipe.wire(
            x.exponent + y.exponent - format.bias, exponent_shape(format), name="exponent"
        ),
        sign=x.sign ^ y.sign,
        zero=x.zero | y.zero,
        inf=x.inf | y.inf,
        nan=x.nan | y.nan | (x.inf & y.zero) | (x.zero & y.inf),
        **{f"part{weight}": product for weight, product in parts},
    )
    product = total([(weight, getattr(s, f"part{weight}")) for weight, _ in parts], 2 * p)
    if len(parts) > 1:
        s = pipe.rank(product=product, **kept(s))
        product = s.product
    wide = product[-1]
    significand = Mux(wide, product[p:], product[p - 1 : -1])
    guard = Mux(wide, product[p - 1], product[p - 2])
    sticky = product[: p - 2].any() | (wide & product[p - 2])
    exponent = pipe.wire(s.exponent + wide, exponent_shape(format), name="exponent")
    return rounded(pipe, format, s, significand, guard, sticky, exponent=exponent)


def div(pipe: Pipeline, format: Float, a: Value, b: Value) -> Value:
    """Order the significands; restoring division, some digits a stage; round."""
    x, y = Unpacked(a, format), Unpacked(b, format)
    p = format.fraction_bits + 1
    less = pipe.wire(x.normal_significand < y.normal_significand, name="less")
    s = pipe.rank(
        rest=Mux(less, Cat(Const(0, 1), x.normal_significand), x.normal_significand)[: p + 1],
        divisor=y.normal_significand,
        exponent=pipe.wire(
            x.exponent - y.exponent + format.bias - less, exponent_shape(format), name="exponent"
        ),
        sign=x.sign ^ y.sign,
        zero=x.zero | y.inf,
        inf=x.inf | y.zero,
        nan=x.nan | y.nan | (x.zero & y.zero) | (x.inf & y.inf),
    )
    s = divide(
        pipe,
        format,
        s.rest,
        s.divisor,
        Const(0, 0),
        kept(s),
    )
    return rounded(pipe, format, s, s.quotient[1:], s.quotient[0], s.rest.any())


def sqrt(pipe: Pipeline, format: Float, a: Value) -> Value:
    """Make the exponent even; restoring square root, some digits a stage; round (there are no ties)."""
    x = Unpacked(a, format)
    even = x.exponent[0]  # the bias is odd
    s = pipe.rank(
        radicand=Mux(even, x.normal_significand, Cat(Const(0, 1), x.normal_significand))[
            : format.fraction_bits + 2
        ],
        exponent=pipe.wire(
            (x.exponent + format.bias) >> 1, exponent_shape(format), name="exponent"
        ),
        sign=x.sign,
        zero=x.zero,
        inf=x.inf,
        nan=x.nan | (x.sign & ~x.zero),
    )
    s = square_root(
        pipe,
        s.radicand,
        digits("sqrt", format),
        digits_per_stage(format),
        kept(s),
    )
    return rounded(pipe, format, s, s.root[1:], s.root[0], Const(1))


def neg(pipe: Pipeline, format: Float, a: Value) -> Value:
    return _canonical(pipe, format, a, ~a[-1])


def absolute(pipe: Pipeline, format: Float, a: Value) -> Value:
    return _canonical(pipe, format, a, Const(0, 1))


def _canonical(pipe: Pipeline, format: Float, a: Value, sign: Value) -> Value:
    """No subnormals and one NaN, with this sign otherwise."""
    x = Unpacked(a, format)
    magnitude = Mux(x.nan, format.nan, Mux(x.zero, 0, x.magnitude))[: format.width - 1]
    return pipe.rank(o=Cat(magnitude, sign & ~x.nan)).o


def _below(a: Value, b: Value) -> Value:
    """Whether a is below b as ordered codes: −0 just below +0, NaN anywhere."""
    return _key(a) < _key(b)


def _key(code: Value) -> Value:
    return Cat(code[:-1] ^ code[-1].replicate(len(code) - 1), code[-1]).as_signed()


def lt(pipe: Pipeline, format: Float, a: Value, b: Value, equal: bool = False) -> Value:
    x, y = Unpacked(a, format), Unpacked(b, format)
    zeros = x.zero & y.zero
    below = (zeros | ~_below(b, a)) if equal else (~zeros & _below(a, b))
    return pipe.rank(o=truth(below & ~x.nan & ~y.nan, format.one, format.width)).o


def le(pipe: Pipeline, format: Float, a: Value, b: Value) -> Value:
    return lt(pipe, format, a, b, equal=True)


def maximum(pipe: Pipeline, format: Float, a: Value, b: Value, least: bool = False) -> Value:
    x, y = Unpacked(a, format), Unpacked(b, format)
    below = _below(a, b)
    picked = Mux(below ^ least, b, a)
    nan = x.nan | y.nan
    zero = ~picked[format.fraction_bits : -1].any()
    magnitude = Mux(nan, format.nan, Mux(zero, 0, picked[:-1]))[: format.width - 1]
    return pipe.rank(o=Cat(magnitude, picked[-1] & ~nan)).o


def minimum(pipe: Pipeline, format: Float, a: Value, b: Value) -> Value:
    return maximum(pipe, format, a, b, least=True)


def select(pipe: Pipeline, format: Float, c: Value, a: Value, b: Value) -> Value:
    return pipe.rank(o=Mux(c[format.fraction_bits : -1].any(), a, b)).o


OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "sqrt": sqrt,
    "neg": neg,
    "abs": absolute,
    "max": maximum,
    "min": minimum,
    "lt": lt,
    "le": le,
    "gt": lambda pipe, format, a, b: lt(pipe, format, b, a),
    "ge": lambda pipe, format, a, b: le(pipe, format, b, a),
    "select": select,
}
