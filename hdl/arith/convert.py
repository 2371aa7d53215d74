"""`pg_converter`: stored PostgreSQL values to codes, bit for bit as `models.numerics.convert.from_pg`, and how they fit."""

from collections.abc import Collection
from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from penstock.models.numerics.convert import PG_BITS, in_order, may_be_unfit
from penstock.models.numerics.formats import Fixed, Float, Format
from penstock.models.numerics.latency import convert_latency
from penstock.models.numerics.limbs import LIMB, LIMBS_MAX, OFFSET_BITS, SHIFT_BITS, Limbs

from .fixeds import extreme, outside, saturate
from .pipeline import Pipeline, Specials, Unrounded, align, leading_zeros, round_pack

_FIELDS = {"float4": (8, 23), "float8": (11, 52)}
#: Biased exponents of any source in any target.
_EXPONENT = signed(13)


def pg_converter(pgtypes: Collection[str], format: Format) -> wiring.Component:
    """A converter from any of these types; see `PgConverter`."""
    return PgConverter(pgtypes, format)


class PgConverter(wiring.Component):
    """Converts one stored value in each cycle (II = 1), `models.numerics.latency.convert_latency(pgtypes, format)` cycles later.

    * `pgtypes`: one or more of `bool int2 int4 int8 float4 float8`.
    * `format`: of the result.

    Raises ValueError: no type, or one that does not convert.
    """

    def __init__(self, pgtypes: Collection[str], format: Format):
        self.pgtypes, self.format = in_order(pgtypes), format
        if not self.pgtypes:
            raise ValueError("a converter needs at least one type")
        self.latency = convert_latency(self.pgtypes, format)
        # index into `models.numerics.convert.in_order(pgtypes)`; absent if there is only one type
        choice = (
            {"type": In(unsigned(bits_for(len(self.pgtypes) - 1)))} if len(self.pgtypes) > 1 else {}
        )
        if isinstance(format, Limbs):
            # the unit, of `Limbs` alone, a cycle after the value: `Limbs.quantised`
            choice |= {
                "shift": In(signed(SHIFT_BITS)),
                "offset": In(signed(OFFSET_BITS)),
                "limbs": In(range(LIMBS_MAX + 1)),
            }
        super().__init__(
            {
                # the value's little-endian pattern; bits above the type's width are not looked at
                "i": In(unsigned(64)),
                **choice,
                "o": Out(unsigned(format.width)),
                # with `o`: the value lies beyond the format's range; it is no (finite) number, as
                # `models.numerics.convert.unfit` says. Constant 0 where no value of these types is
                # such.
                "over": Out(1),
                "nan": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(m)
        if isinstance(self.format, Float):
            result, over, nan = self._to_float(pipe, self.format)
        elif isinstance(self.format, Limbs):
            result, over, nan = self._to_limbs(pipe, self.format)
        else:
            assert isinstance(self.format, Fixed)
            result, over, nan = self._to_fixed(pipe, self.format)
        fits = [may_be_unfit(name, self.format) for name in self.pgtypes]
        m.d.comb += self.o.eq(result)
        if any(overflows for overflows, _ in fits):
            m.d.comb += self.over.eq(over)
        if any(special for _, special in fits):
            m.d.comb += self.nan.eq(nan)
        if pipe.depth != self.latency:
            raise RuntimeError(
                f"the converter has {pipe.depth} stages, its latency says {self.latency}"
            )
        return m

    def _is(self, name: str) -> Value:
        if name not in self.pgtypes:
            return Const(0, 1)
        return self.type == self.pgtypes.index(name) if len(self.pgtypes) > 1 else Const(1, 1)

    @property
    def _integers(self) -> list[str]:
        return [name for name in self.pgtypes if name.startswith("int")]

    @property
    def _floats(self) -> list[str]:
        return [name for name in self.pgtypes if name in _FIELDS]

    def _integer(self) -> Value:
        """The integer input, extended to the widest integer type."""
        width = PG_BITS[self._integers[-1]]
        value: Value = self.i[:width]
        for name in self._integers[:-1]:
            bits = PG_BITS[name]
            value = Mux(
                self._is(name), Cat(self.i[:bits], self.i[bits - 1].replicate(width - bits)), value
            )
        return value[:width].as_signed()

    def _float(self, bias: int) -> SimpleNamespace:
        """The float input: sign, exponent with this bias, fraction (the widest type's bits), classes."""
        width = max((_FIELDS[name][1] for name in self._floats), default=1)
        fields: list[dict[str, Value]] = []
        for name in self._floats:
            e, f = _FIELDS[name]
            exponent, fraction = self.i[f : f + e], self.i[:f]
            top = exponent.all()
            fields.append(
                {
                    "sign": self.i[e + f],
                    "exponent": (exponent - ((1 << (e - 1)) - 1 - bias)).as_signed(),
                    "fraction": Cat(Const(0, width - f), fraction),
                    "zero": exponent == 0,
                    "inf": top & ~fraction.any(),
                    "nan": top & fraction.any(),
                }
            )
        if len(fields) == 2:
            return SimpleNamespace(
                **{
                    name: Mux(self._is("float8"), fields[1][name], fields[0][name])
                    for name in fields[0]
                }
            )
        return SimpleNamespace(**fields[0])

    def _to_float(self, pipe: Pipeline, format: Float) -> tuple[Value, Value, Value]:
        f = format.fraction_bits
        parts: dict[str, Value] = {
            "sign": Const(0, 1),
            "exponent": Const(format.bias, _EXPONENT),
            "significand": Const(1 << f, f + 1),
            "guard": Const(0, 1),
            "sticky": Const(0, 1),
            "zero": ~self.i[:8].any(),
            "inf": Const(0, 1),
            "nan": Const(0, 1),
        }
        if self._floats:
            real, is_bool = self._real(pipe, format), self._is("bool")
            parts = (
                {name: Mux(is_bool, parts[name], real[name]) for name in parts}
                if "bool" in self.pgtypes
                else real
            )
        parts = {
            name: pipe.wire(value, _EXPONENT if name == "exponent" else None, name=name)
            for name, value in parts.items()
        }
        s = self._or_integer(pipe, format, parts) if self._integers else pipe.rank(**parts)
        number = Unrounded(s.sign, s.exponent, s.significand, s.guard, s.sticky)
        code = round_pack(format, number, Specials(s.zero, s.inf, s.nan))
        packed = pipe.rank(o=code, special=s.inf | s.nan)
        return packed.o, packed.o[f:-1].all() & ~packed.special, packed.special

    def _real(self, pipe: Pipeline, format: Float) -> dict[str, Value]:
        """The input as a floating-point number: what `round_pack` takes."""
        f, x = format.fraction_bits, self._float(format.bias)
        fraction = Cat(Const(0, max(f + 2 - len(x.fraction), 0)), x.fraction)
        return {
            "sign": x.sign,
            "exponent": pipe.wire(x.exponent, _EXPONENT, name="exponent"),
            "significand": Cat(fraction[-f:], Const(1, 1)),
            "guard": fraction[-f - 1],
            "sticky": fraction[: -f - 1].any(),
            "zero": x.zero,
            "inf": x.inf,
            "nan": x.nan,
        }

    def _or_integer(
        self, pipe: Pipeline, format: Float, parts: dict[str, Value]
    ) -> SimpleNamespace:
        """What `round_pack` takes, of the input as an integer where it is one. Three ranks."""
        f, integer, is_integer = format.fraction_bits, self._integer(), Const(0, 1)
        negative = integer[-1]
        for name in self._integers:
            is_integer = is_integer | self._is(name)
        magnitude = ((integer ^ negative.replicate(len(integer))) + negative)[: len(integer)]
        s = pipe.rank(**parts, magnitude=magnitude, negative=negative, integer=is_integer)
        zeros, some = leading_zeros(s.magnitude)
        s = pipe.rank(**vars(s), zeros=zeros, some=some)
        normal = Cat(Const(0, f + 3), s.magnitude << s.zeros)[: f + 3 + len(s.magnitude)]
        exponent = format.bias + len(s.magnitude) - 1 - s.zeros
        count = {
            "sign": s.negative,
            "exponent": pipe.wire(exponent, _EXPONENT, name="integer_exponent"),
            "significand": normal[-f - 1 :],
            "guard": normal[-f - 2],
            "sticky": normal[: -f - 2].any(),
            "zero": ~s.some,
            "inf": Const(0, 1),
            "nan": Const(0, 1),
        }
        return pipe.rank(
            **{
                name: pipe.wire(
                    Mux(s.integer, count[name], getattr(s, name)),
                    _EXPONENT if name == "exponent" else None,
                )
                for name in count
            }
        )

    def _to_fixed(self, pipe: Pipeline, format: Fixed) -> tuple[Value, Value, Value]:
        w, f = format.width, format.fraction_bits
        code: Value = Mux(self.i[:8].any(), Const(format.one, unsigned(w)), 0)[:w]
        beyond: Value = self.i[:8].any() & int(format.integer_bits == 1)
        if self._integers:
            wide = Cat(Const(0, f), self._integer())
            is_bool = self._is("bool")
            code = Mux(is_bool, code, saturate(format, wide))[:w]
            beyond = Mux(is_bool, beyond, outside(format, wide))
        if not self._floats:
            s = pipe.rank(o=code, beyond=beyond)
            return s.o, s.beyond, Const(0)
        x = self._float(0)
        # frame: w − 1 bits of the magnitude, a rounding bit and the or of the rest, for the greatest exponent in range; then shift right
        significand = Cat(Const(0, max(w + 1 - len(x.fraction), 0)), x.fraction, Const(1, 1))
        frame = Cat(significand[:-w].any(), significand[-w:])
        distance = pipe.wire(w - 2 - f - x.exponent, _EXPONENT, name="distance")
        # the lowest number's exponent is beyond those of the others; what rounds to it fits
        fraction = Cat(Const(0, max(w + 1 - len(x.fraction), 0)), x.fraction)
        tied = fraction[-w] & fraction[:-w].any()
        lowest = x.sign & (distance == -1) & ~fraction[1 - w :].any() & ~tied
        is_real = Const(0, 1)
        for name in self._floats:
            is_real = is_real | self._is(name)
        s = pipe.rank(
            frame=Mux(x.zero, 0, frame)[: w + 1],
            distance=distance[:-1],
            out=distance[-1] & ~x.zero,
            sign=x.sign,
            nan=x.nan,
            real=is_real,
            code=code,
            beyond=beyond,
            far=distance[-1] & ~x.zero & ~lowest,
        )
        s = pipe.rank(
            aligned=align(s.frame, s.distance),
            **{
                name: getattr(s, name)
                for name in ("out", "far", "sign", "nan", "real", "code", "beyond")
            },
        )
        up = s.aligned[2] & (s.aligned[:2].any() | s.aligned[3])
        value = ((Cat(s.aligned[3:], Const(0, 2)) ^ s.sign.replicate(w + 1)) + (s.sign ^ up))[
            : w + 1
        ]
        result = Mux(s.out, extreme(format, s.sign), saturate(format, value))
        s = pipe.rank(
            o=Mux(s.real, Mux(s.nan, 0, result), s.code)[:w],
            over=Mux(s.real, (s.far | (~s.out & outside(format, value))) & ~s.nan, s.beyond),
            nan=s.real & s.nan,
        )
        return s.o, s.over, s.nan

    def _magnitude(self, pipe: Pipeline) -> SimpleNamespace:
        """The input as `sign`, `magnitude` and `exponent`, magnitude · 2**exponent; `special`: it is no finite number. In the next stage."""
        sign: Value = Const(0, 1)
        magnitude: Value = Mux(self.i[:8].any(), Const(1, 64), 0)[:64]
        if self._integers:
            integer = Value.cast(self._integer())
            wide = Cat(integer, integer[-1].replicate(64 - len(integer)))
            negated = ((wide ^ integer[-1].replicate(64)) + integer[-1])[:64]
            is_bool = self._is("bool")
            sign, magnitude = Mux(is_bool, 0, integer[-1]), Mux(is_bool, magnitude, negated)
        exponent: Value = Const(0, _EXPONENT)
        special: Value = Const(0, 1)
        for name in self._floats:
            e, f = _FIELDS[name]
            field, fraction = self.i[f : f + e], self.i[:f]
            normal = field.any()
            least = 2 - (1 << (e - 1)) - 52  # of a subnormal's last bit, behind 52 of a fraction
            here = self._is(name)
            sign = Mux(here, self.i[e + f], sign)
            significand = Cat(Const(0, 52 - f), fraction, normal, Const(0, 11))
            magnitude = Mux(here, significand, magnitude)
            exponent = Mux(here, Mux(normal, field + (least - 1), least), exponent)
            special = Mux(here, field.all(), special)
        return pipe.rank(
            sign=sign[0],
            magnitude=magnitude[:64],
            exponent=pipe.wire(exponent.as_signed(), _EXPONENT, name="exponent"),
            special=special[0],
        )

    def _to_limbs(self, pipe: Pipeline, format: Limbs) -> tuple[Value, Value, Value]:
        w, room = format.width, 11  # the highest bit of 53 in the highest of 64
        s = self._magnitude(pipe)
        distance = pipe.wire(room + self.shift - s.exponent, signed(14), name="distance")
        far = distance < 0
        s = pipe.rank(
            sign=s.sign,
            frame=Cat(Const(0, room + 1), s.magnitude),
            distance=Mux(far, 0, distance)[:13],
            far=far & s.magnitude.any(),
            special=s.special,
            offset=self.offset,
            limbs=self.limbs,
        )
        s = pipe.rank(
            aligned=align(s.frame, s.distance),
            **{name: getattr(s, name) for name in ("sign", "far", "special", "offset", "limbs")},
        )
        # below the integer's bits one for rounding, and the or of the rest
        up = s.aligned[1] & (s.aligned[0] | s.aligned[2])
        magnitude = pipe.wire(s.aligned[2:] + up, name="magnitude")
        s = pipe.rank(
            raw=Mux(s.sign, -magnitude, magnitude)[:65].as_signed(),
            far=s.far | Mux(s.sign, magnitude > 1 << 63, magnitude >= 1 << 63),
            **{name: getattr(s, name) for name in ("sign", "special", "offset", "limbs")},
        )
        q = pipe.wire(s.raw - s.offset, signed(67), name="q")
        negative = Mux(s.far, s.sign, q[-1])
        beyond, ends = Const(0, 1), Const(0, w)
        for limbs in sorted(set(format.limbs)):
            top = LIMB * limbs
            here = s.limbs == limbs
            high = q[top:]
            beyond = Mux(here, high.any() & ~high.all(), beyond)
            end = Mux(negative, Cat(Const(0, top), Const(-1, w - top)), (1 << top) - 1)
            ends = Mux(here, end, ends)
        over = s.far | beyond
        s = pipe.rank(
            o=Mux(s.special, 0, Mux(over, ends, q))[:w], over=over & ~s.special, nan=s.special
        )
        return s.o, s.over[0], s.nan
