"""Pipelines of fixed-point numbers, bit for bit as `models.numerics.formats.Fixed` computes.

Each function takes a pipeline under construction and operands (codes), adds its ranks, and returns the result's register.
"""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Mux, Value, ValueLike

from penstock.models.numerics.formats import Fixed
from penstock.models.numerics.latency import digits, digits_per_stage

from .digits import divide, square_root
from .pipeline import Pipeline, partial_products, total, truth


def extreme(format: Fixed, negative: ValueLike) -> Value:
    """The code of the lowest or the greatest number."""
    return Cat((~Value.cast(negative)).replicate(format.width - 1), negative)


def saturate(format: Fixed, value: Value) -> Value:
    """The code of a signed integer of any width."""
    w = format.width
    value = value.as_signed()
    if len(value) <= w:
        return Cat(value, value[-1].replicate(w - len(value)))
    return Mux(outside(format, value), extreme(format, value[-1]), value[:w])[:w]


def outside(format: Fixed, value: Value) -> Value:
    """Whether a signed integer of any width saturates."""
    w = format.width
    if len(value) <= w:
        return Const(0)
    return value[w - 1 : -1] != value[-1].replicate(len(value) - w)


def add(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=saturate(format, a.as_signed() + b.as_signed())).o


def sub(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=saturate(format, a.as_signed() - b.as_signed())).o


def mul(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    """Multiply; add the partial products where there are several; round and saturate."""
    parts = partial_products(a.as_signed(), b.as_signed())
    s = pipe.rank(**{f"part{weight}": product for weight, product in parts})
    product = total(
        [(weight, getattr(s, f"part{weight}")) for weight, _ in parts], 2 * format.width
    )
    if len(parts) > 1:
        product = pipe.rank(product=product).product
    f = format.fraction_bits
    up = product[f - 1] & (product[: f - 1].any() | product[f]) if f else Const(0, 1)
    return pipe.rank(o=saturate(format, product[f:].as_signed() + up)).o


def div(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    """Magnitudes; restoring division, some digits a stage; round, give the sign, saturate."""
    w, low = format.width, format.integer_bits - 1
    s = pipe.rank(dividend=_magnitude(a), divisor=_magnitude(b), sign=a[-1] ^ b[-1], zero=~a.any())
    first = s.dividend[low:]
    # the quotient has at most w − 1 bits before the point of its unit, or it is out of range
    bits = Cat(Const(0, 1), s.dividend[:low])
    rest = pipe.wire(Cat(bits[-1], first)[: w + 1])
    s = divide(
        pipe,
        format,
        rest,
        s.divisor,
        bits[:-1],
        {"sign": s.sign, "zero": s.zero, "out": first >= s.divisor},
    )
    up = s.quotient[0] & (s.rest.any() | s.quotient[1])
    # −(q + up) = ~q + 1 − up
    magnitude = Cat(s.quotient[1:], Const(0, 2))
    value = ((magnitude ^ s.sign.replicate(w + 1)) + (s.sign ^ up))[: w + 1]
    result = Mux(s.out, extreme(format, s.sign), saturate(format, value))
    return pipe.rank(o=Mux(s.zero, 0, result)[:w]).o


def _magnitude(a: Value) -> Value:
    return ((a ^ a[-1].replicate(len(a))) + a[-1])[: len(a)]


def sqrt(pipe: Pipeline, format: Fixed, a: Value) -> Value:
    """Restoring square root, some digits a stage; round."""
    w = format.width
    count = digits("sqrt", format)
    # the radicand a · 2**fraction_bits has the fraction's zeros below, and an even number of bits with or without the sign
    radicand = a[: w - (w + format.fraction_bits) % 2]
    s = square_root(pipe, radicand, count, digits_per_stage(format), {"negative": a[-1]})
    root = Cat(s.root[1:] + s.root[0], Const(0, w))[:w]
    return pipe.rank(o=Mux(s.negative, 0, root)[:w]).o


def neg(pipe: Pipeline, format: Fixed, a: Value) -> Value:
    return pipe.rank(o=saturate(format, -a.as_signed())).o


def absolute(pipe: Pipeline, format: Fixed, a: Value) -> Value:
    return pipe.rank(o=saturate(format, Cat(_magnitude(a), Const(0, 1)))).o


def lt(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=truth(a.as_signed() < b.as_signed(), format.one, format.width)).o


def le(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=truth(a.as_signed() <= b.as_signed(), format.one, format.width)).o


def maximum(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=Mux(a.as_signed() < b.as_signed(), b, a)).o


def minimum(pipe: Pipeline, format: Fixed, a: Value, b: Value) -> Value:
    return pipe.rank(o=Mux(a.as_signed() < b.as_signed(), a, b)).o


def select(pipe: Pipeline, format: Fixed, c: Value, a: Value, b: Value) -> Value:
    return pipe.rank(o=Mux(c.any(), a, b)).o


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
