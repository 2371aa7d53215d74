"""Number formats as Amaranth shapes: signals that show numbers in waves and prints."""

from typing import Any

from amaranth.hdl import Cat, Const, Mux, ShapeCastable, Value, ValueCastable, unsigned
from amaranth.hdl import Format as Text

from penstock.models.numerics.formats import Fixed, Float, Format

__all__ = ["FormatShape", "Number"]

#: Decimal digits shown behind the point.
_DIGITS = 6


class FormatShape(ShapeCastable):
    """The shape of codes of a format.

    >>> rate = Signal(FormatShape(float32), init=0.1)

    Constants are numbers (rounded as `format.encode` does). Signals are `Number`s, which stand for their code as a value. They
    are shown as decimals cut off (not rounded) behind six digits: `-3.250000` of a `Fixed`, `-1.625000p+1` (times 2 to that
    power) of a `Float`.

    Parameters
    ----------
    format
        A number format.
    """

    def __init__(self, number_format: Format):
        self.number_format = number_format

    def as_shape(self):
        return unsigned(self.number_format.width)

    def const(self, init):
        return Const(
            self.number_format.const(0.0 if init is None else float(init)), self.as_shape()
        )

    def from_bits(self, raw):
        return float(self.number_format.decode(raw))

    def __call__(self, value):
        return Number(self, value)

    def __eq__(self, other):
        return isinstance(other, FormatShape) and self.number_format == other.number_format

    def __hash__(self):
        return hash(self.number_format)

    def __repr__(self):
        return f"FormatShape({self.number_format.name})"

    def format(self, value, format_spec):
        code = Value.cast(value)
        if format_spec:
            return Text(f"{{:{format_spec}}}", code)
        if isinstance(self.number_format, Float):
            return self._float_text(self.number_format, code)
        assert isinstance(self.number_format, Fixed)
        return self._fixed_text(self.number_format, code)

    def _fixed_text(self, number_format: Fixed, code: Value) -> Text:
        f = number_format.fraction_bits
        magnitude = Mux(code[-1], -code.as_signed(), code)[: number_format.width]
        return Text("{:s}{:d}.{:06d}", _sign(code), magnitude[f:], _decimals(magnitude[:f]))

    def _float_text(self, number_format: Float, code: Value) -> Text:
        f = number_format.fraction_bits
        zero = code[f:-1] == 0
        power = Mux(zero, 0, (code[f:-1] - number_format.bias).as_signed()).as_signed()
        size = Mux(power < 0, -power, power)[:10]
        decimals = _decimals(Mux(zero, 0, code[:f])[:f])
        number = Cat(
            _digit(~zero),
            _text("."),
            *(_digit(decimals // 10**n % 10) for n in reversed(range(_DIGITS))),
            _text("p"),
            Mux(power < 0, _text("-"), _text("+")),
            *(Mux(size < limit, 0, _digit(size // limit % 10))[:8] for limit in (100, 10)),
            _digit(size % 10),
        )
        special = Mux(code[:f].any(), _text("nan"), _text("inf"))
        return Text("{:s}{:s}", _sign(code), Mux(code[f:-1].all(), special, number))


# Text as Amaranth's formatter takes it: the first character in the lowest byte, zero bytes left out.


def _text(text: str) -> Const:
    return Const(int.from_bytes(text.encode(), "little"), 8 * len(text))


def _digit(value: Value) -> Value:
    return Cat(value + ord("0"), Const(0, 8))[:8]


def _sign(code: Value) -> Value:
    return Mux(code[-1], _text("-"), 0)[:8]


def _decimals(fraction: Value) -> Value:
    """The first digits behind the point of a binary fraction, as an integer."""
    return (fraction * 10**_DIGITS >> len(fraction)) if len(fraction) else Const(0)


class Number(ValueCastable):
    """A signal or expression that holds a code of a format; `as_value()` is the code."""

    def __init__(self, shape: FormatShape, code: Any):
        self._shape, self._code = shape, Value.cast(code)

    def shape(self):
        return self._shape

    def as_value(self):
        return self._code

    def eq(self, other):
        """Assign a code, or another number of the same format."""
        if isinstance(other, Number) and other.shape() != self._shape:
            raise TypeError(
                f"a number of {other.shape()!r} cannot be assigned to one of {self._shape!r}"
            )
        return self._code.eq(Value.cast(other))

    def __repr__(self):
        return f"Number({self._shape!r}, {self._code!r})"
