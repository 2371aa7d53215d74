"""Pipeline depth and coarse cost of every arithmetic unit.

`hdl.arith` checks its depths against these: an operand presented in cycle t gives a result that is visible in cycle
t + latency; every unit takes an operand each cycle (II = 1). Costs are estimates, fitted to what Yosys makes of the units for
an ECP5 (a four-input-LUT part, a carry cell counted as two), except `dsp`, which counts the multipliers that a synthesizer
infers from the products as the hardware writes them (rule in `multipliers`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from .convert import PG_BITS, in_order
from .formats import Fixed, Float, Format
from .limbs import Limbs

#: Bits of the second factor that one partial product takes: the unsigned part of an 18-bit signed multiplier port.
SLICE = 17


@dataclass(frozen=True)
class Cost:
    """Estimated look-up tables and flip-flops, multipliers, and block RAMs of 18 kbit that hold tables."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.bram + other.bram
        )

    def __mul__(self, count: int) -> Cost:
        return Cost(self.lut * count, self.ff * count, self.dsp * count, self.bram * count)

    __rmul__ = __mul__


LatencyFn = Callable[[Format], int]
CostFn = Callable[[Format, tuple[int, int]], Cost]
_REGISTRY: dict[str, tuple[LatencyFn, CostFn]] = {}


def register(op: str, latency_fn: LatencyFn, cost_fn: CostFn) -> None:
    """Enter an operation: `latency_fn(format)` cycles and `cost_fn(format, dsp_shape)`."""
    _REGISTRY[op] = latency_fn, cost_fn


def _entry(op: str) -> tuple[LatencyFn, CostFn]:
    if op not in _REGISTRY:
        raise ValueError(f"no unit for {op!r}; there are {', '.join(_REGISTRY)}")
    return _REGISTRY[op]


def latency(op: str, format: Format) -> int:
    """Cycles from an operand to its result; raises ValueError for an unknown operation."""
    return _entry(op)[0](format)


def cost(op: str, format: Format, dsp: tuple[int, int] = (18, 18)) -> Cost:
    """Estimated size of one unit on a part whose multipliers have the signed operand widths `dsp` (18×18, or 27×18)."""
    return _entry(op)[1](format, dsp)


def slices(bits: int) -> int:
    """Partial products that `hdl.arith` writes for a factor of this size: slices of equal size, one of up to 18 bits."""
    return 1 if bits <= SLICE + 1 else -(-bits // SLICE)


def multipliers(bits: int, dsp: tuple[int, int] = (18, 18), signed: bool = False) -> int:
    """Multipliers inferred for the product of two `bits`-bit factors.

    The hardware writes `slices(bits)` partial products of the whole first factor by a slice of the second; a synthesizer
    splits each by the greater width of the multiplier, all parts but a signed number's top one being unsigned (one bit less
    where the port is signed; an 18×18 multiplier is taken to have unsigned ports as well, as in the ECP5).
    """
    wide = max(dsp)
    width = bits if signed else bits + (wide > 18)
    return slices(bits) * (
        1 if width <= wide else -(-(bits - signed) // (wide - 1 if signed or wide > 18 else wide))
    )


def digits_per_stage(format: Format) -> int:
    """Result bits that division and square root find in one pipeline stage."""
    return 2 if format.is_float or format.width <= 16 else 1


def digits(op: str, format: Format) -> int:
    """Result bits that `div` or `sqrt` computes digit by digit, the rounding bit included.

    A float's significand has its leading bit, fraction and a rounding bit. A fixed-point quotient is developed to its greatest
    magnitude; a root has half the bits of its radicand.
    """
    if isinstance(format, Float):
        return format.fraction_bits + 2
    assert isinstance(format, Fixed)
    return format.width if op == "div" else (format.width + format.fraction_bits) // 2 + 1


def _stages(op: str, format: Format) -> int:
    return -(-digits(op, format) // digits_per_stage(format))


def _add(format: Format) -> int:
    return 1 if not format.is_float else 5 if format.width > 17 else 4


def _mul(format: Format) -> int:
    return (
        2
        if slices(format.fraction_bits + 1 if isinstance(format, Float) else format.width) == 1
        else 3
    )


def _div(format: Format) -> int:
    return _stages("div", format) + 2


def _sqrt(format: Format) -> int:
    return _stages("sqrt", format) + (2 if format.is_float else 1)


def _add_cost(format: Format, dsp: tuple[int, int]) -> Cost:
    w = format.width
    if isinstance(format, Float):
        return Cost((24 if w > 16 else 20) * w, (_add(format) + 1) * w)
    return Cost(2 * w, w)


def _mul_cost(format: Format, dsp: tuple[int, int]) -> Cost:
    w = format.width
    count = (
        multipliers(format.fraction_bits + 1, dsp)
        if isinstance(format, Float)
        else multipliers(w, dsp, signed=True)
    )
    luts = 8 if format.is_float else 4 if _mul(format) == 2 else 6
    return Cost(luts * w, (2 if _mul(format) == 2 else 4) * w, count)


def _mac_cost(format: Format, dsp: tuple[int, int]) -> Cost:
    return _mul_cost(format, dsp) + _add_cost(format, dsp) + Cost(0, format.width * _mul(format))


def _div_cost(format: Format, dsp: tuple[int, int]) -> Cost:
    p = format.fraction_bits + 2 if isinstance(format, Float) else format.width
    return Cost(
        digits("div", format) * (2 * p + 6) + 6 * p,
        _stages("div", format) * (2 * p if format.is_float else 5 * p // 2) + 2 * p,
    )


def _sqrt_cost(format: Format, dsp: tuple[int, int]) -> Cost:
    p = format.fraction_bits + 2 if isinstance(format, Float) else format.width
    extra = 6 if format.is_float else 0
    return Cost(
        digits("sqrt", format) * (p + extra) + extra * p,
        (2 if format.is_float else 1) * _stages("sqrt", format) * p,
    )


def _simple(float_luts: float, fixed_luts: float) -> CostFn:
    return lambda format, dsp: Cost(
        int((float_luts if format.is_float else fixed_luts) * format.width), format.width
    )


register("add", _add, _add_cost)
register("sub", _add, _add_cost)
register("mul", _mul, _mul_cost)
register("mac", lambda format: _mul(format) + _add(format), _mac_cost)
register("div", _div, _div_cost)
register("sqrt", _sqrt, _sqrt_cost)
for _ops, _float_luts, _fixed_luts in (
    ("lt gt le ge", 3.5, 1.5),
    ("max min", 6.0, 2.5),
    ("neg abs", 1.5, 2.0),
    ("select", 1.2, 1.5),
    ("pass", 0.0, 0.0),
):
    for _op in _ops.split():
        register(_op, lambda format: 1, _simple(_float_luts, _fixed_luts))


def _widths(pgtypes: Collection[str]) -> tuple[int, int]:
    """Bits of the widest integer and of the widest float type (0: none)."""
    names = in_order(pgtypes)
    return (
        max((PG_BITS[name] for name in names if name.startswith("int")), default=0),
        max((PG_BITS[name] for name in names if name.startswith("float")), default=0),
    )


def convert_latency(pgtypes: Collection[str], format: Format) -> int:
    """Depth of the converter from any of these PostgreSQL types (`bool int2 int4 int8 float4 float8`)."""
    integer, real = _widths(pgtypes)
    if isinstance(format, Limbs):
        return 5
    if format.is_float:
        return 4 if integer else 2
    return 3 if real else 1


def convert_cost(pgtypes: Collection[str], format: Format) -> Cost:
    """Estimated size of that converter."""
    integer, real = _widths(pgtypes)
    w = format.width
    if isinstance(format, Limbs):
        return Cost(700 + 4 * w, 420 + w)
    if format.is_float:
        return Cost(12 * integer + real + 2 * w, 2 * integer + real + w)
    return Cost(2 * integer + 2 * real + (10 if real else 2) * w, (5 if real else 1) * w)
