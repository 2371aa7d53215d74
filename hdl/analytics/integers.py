"""Units that compute integers: which rows, as kernels make them of indices; see `models.rows.units`."""

import operator

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import Fixed, Float, Format
from ...models.rows.units import IntegerUnit
from ..arith.pipeline import Pipeline, truth

_COMPARED = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Integers(wiring.Component):
    """`unit` in hardware: it takes operands every cycle; the result is there `unit.latency` cycles later."""

    def __init__(self, unit: IntegerUnit, fmt: Format):
        self.unit, self.fmt = unit, fmt
        widths = [abs(w) for w in unit.operands] or [fmt.width]
        super().__init__(
            {
                # operands that are no constants, in their order; two's complement where they are
                # signed
                **{name: In(w) for name, w in zip("ab", widths, strict=False)},
                "o": Out(unit.width(fmt.width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        m.d.comb += self.o.eq(self._result(pipe))
        if pipe.depth != self.unit.latency:
            raise RuntimeError(f"{self.unit} has {pipe.depth} stages, not {self.unit.latency}")
        return m

    def _operands(self) -> list[Value]:
        """Return the operands as the integers that they are, the constant among them."""
        unit = self.unit
        values: list[Value] = [
            getattr(self, name).as_signed() if w < 0 else getattr(self, name)
            for name, w in zip("ab", unit.operands, strict=False)
        ]
        if unit.fn != "number" and unit.detail[1] >= 0:
            values.insert(unit.detail[1], Const(unit.detail[2]))
        return values

    def _result(self, pipe: Pipeline) -> Value:
        unit = self.unit
        if unit.fn == "integer":
            return pipe.rank(o=self._whole()).o
        if unit.fn == "hash":
            return self._hash(pipe)
        if unit.fn == "number":
            return self._number(pipe)
        if unit.divisor:
            return self._divided(pipe)
        values = self._operands()
        if unit.fn == "integer *":
            held = pipe.rank(a=values[0], b=values[1])
            return pipe.rank(o=held.a * held.b).o
        if unit.fn == "integer negative":
            return pipe.rank(o=-values[0]).o
        a, b = values
        if unit.compares:
            holds = _COMPARED[unit.fn.removeprefix("integer ")](a, b)
            return pipe.rank(o=truth(holds, self.fmt.one, self.fmt.width)).o
        return pipe.rank(o=a + b if unit.fn == "integer +" else a - b).o

    def _whole(self) -> Value:
        """Return the whole number, no less than 0, that a code is."""
        fmt = self.fmt
        if isinstance(fmt, Fixed):
            return self.a[fmt.fraction_bits :]
        assert isinstance(fmt, Float)
        fraction = fmt.fraction_bits
        exponent = self.a[fraction : fmt.width - 1]
        bias = (1 << fmt.width - 2 - fraction) - 1
        number: Value = Const(0)
        for power in range(min(fraction, self.unit.width(0)) + 1):  # 2 ** power and above
            significand = Cat(self.a[:fraction], Const(1, 1)) >> fraction - power
            number = Mux(exponent == bias + power, significand, number)
        return number

    def _number(self, pipe: Pipeline) -> Value:
        """Return the code of an integer that the format has."""
        fmt, [value] = self.fmt, self._operands()
        if isinstance(fmt, Fixed):
            code = pipe.rank(o=(value << fmt.fraction_bits)[: fmt.width]).o
            return pipe.rank(o=code).o
        assert isinstance(fmt, Float)
        held = pipe.rank(sign=value < 0, size=Mux(value < 0, -value, value)[: len(value)])
        fraction, bias = fmt.fraction_bits, (1 << fmt.width - 2 - fmt.fraction_bits) - 1
        magnitude: Value = Const(0)
        for power in range(min(fraction + 1, len(value))):
            digits = (held.size << fraction - power)[:fraction]
            magnitude = Mux(held.size[power], Cat(digits, Const(bias + power)), magnitude)
        return pipe.rank(o=Cat(magnitude[: fmt.width - 1], held.sign)).o

    def _divided(self, pipe: Pipeline) -> Value:
        """Return the quotient or the remainder of a division by a positive constant, rounded down."""
        unit = self.unit
        divisor, quotient = unit.divisor, unit.fn == "integer //"
        [dividend, _] = self._operands()
        if unit.shifts:
            bits = divisor.bit_length() - 1
            low = (dividend & divisor - 1)[:bits]  # a slice alone extends no sign
            return pipe.rank(o=dividend >> bits if quotient else low if bits else 0).o
        raised = unit.raised(unit.detail[3])
        left = Signal(unit.dividend)
        pipe.m.d.comb += left.eq(dividend + raised)
        rest: Value = pipe.rank(a=left).a
        digits: list[Value] = []
        for digit in reversed(range(unit.digits)):
            enough = pipe.wire(rest >= (divisor << digit), name=f"enough{digit}")
            held = pipe.rank(
                rest=Mux(enough, rest - (divisor << digit), rest)[: unit.dividend],
                digits=Cat(enough, *digits),
            )
            rest, digits = held.rest, list(held.digits)
        if not quotient:
            return pipe.rank(o=rest).o
        return pipe.rank(o=Cat(*digits) - raised // divisor).o

    def _hash(self, pipe: Pipeline) -> Value:
        """Return MurmurHash3 of the operand's words: `models.rows.hashing`."""
        seed, size, width = self.unit.detail
        operand = Signal(Shape(64, signed=width < 0))
        pipe.m.d.comb += operand.eq(self.a.as_signed() if width < 0 else self.a)
        words: Value = operand[: 8 * size]
        state: Value = Const(seed, 32)
        for _ in range(size // 4):
            part = words[:32]
            for factor, turn in ((0xCC9E2D51, 15), (0x1B873593, 0)):
                held = pipe.rank(part=part, words=words, state=state)
                after = pipe.rank(
                    part=(held.part * factor)[:32], words=held.words, state=held.state
                )
                part, words, state = after.part.rotate_left(turn), after.words, after.state
            state = (state ^ part).rotate_left(13)
            state, words = (state * 5 + 0xE6546B64)[:32], words[32:]
        state = state ^ size
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            held = pipe.rank(state=(state ^ (state >> shift))[:32])
            state = pipe.rank(state=(held.state * factor)[:32]).state
        return state ^ (state >> 16)
