"""Number formats and their bit-exact arithmetic on codes.

A *code* is the bit pattern of one number: an unsigned integer below 2**width, held in NumPy as ``int64``. Every operation
takes arrays of codes (or plain integers), works elementwise with broadcasting, and returns codes. Hardware (`hdl.arith`)
gives the same bits.

Rules of `Float` (IEEE 754-2019 but for subnormals):

* rounding to nearest, ties to even, once per operation;
* a subnormal code reads as the zero of its sign; a result is rounded as if exponents had no lower limit, and becomes the
  zero of its sign if it is then still below the smallest normal number, an infinity if it is beyond the largest;
* every NaN result is the one canonical quiet NaN (sign 0, top fraction bit set); `max` and `min` return it if either
  operand is NaN (IEEE `maximum`, as `numpy.maximum` does) and hold +0 above −0; comparisons with NaN are false;
  sqrt(−0) = −0, of any other negative number NaN;
* `pass` and `select` move bits unchanged; all others (`neg` and `abs` too) give canonical codes: no subnormals, one NaN.

Rules of `Fixed` (two's complement, value = integer / 2**fraction_bits): round the exact result to nearest even, then
saturate. Division by zero saturates by the sign of the dividend, 0 / 0 = 0; the square root of a negative number is 0.
`saturated` says which results saturated.

`lt gt le ge` give the code of 1 or of 0 (`one` saturates where the format cannot hold 1); `select(c, a, b)` is `a` where c
is not zero (NaN is not zero; both zeros and subnormals are); `mac(a, b, c)` is the product, rounded, and then the sum,
rounded again.
"""

import re

from .base import ARITY, Codes, Format, register
from .fixedpoint import Fixed
from .floating import FLOAT_NAMES, Float, bfloat16, float16, float32

__all__ = [
    "ARITY",
    "Codes",
    "Fixed",
    "Float",
    "Format",
    "bfloat16",
    "float16",
    "float32",
    "parse_format",
    "register",
]


#: names of floating-point formats, for messages
FLOATS = ", ".join(FLOAT_NAMES.values())


def parse_format(text: str) -> Format:
    """The format of a name: `float32`, `bfloat16`, `float16`, `float:E,F` (bits of exponent, fraction) or `fixed:I,F` (integer, fraction).

    Raises ValueError with a message for the user if the text is none of these or the format cannot be built.
    """
    text = text.strip()
    for (exponent_bits, fraction_bits), name in FLOAT_NAMES.items():
        if text == name:
            return Float(exponent_bits, fraction_bits)
    match = re.fullmatch(r"(fixed|float):([0-9]{1,4}),([0-9]{1,4})", text)
    if not match:
        raise ValueError(
            f"{text!r} is not a number format; write {FLOATS} or fixed:I,F (as in fixed:8,24)"
        )
    try:
        return (Fixed if match[1] == "fixed" else Float)(int(match[2]), int(match[3]))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
