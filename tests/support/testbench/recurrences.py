"""Whole recurrences, drawn in every spelling that the dialect takes, and what they compute by NumPy.

The evaluator runs the kernel's own text in float64, token after token: it has no operands, no form of the unit and no layout. Of the design it takes
the size of the operands alone, for the bound of `models.pim.error`; behind the unit's output the bound goes on through the text's operations, in intervals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import penstock as ps
from penstock.dsl.core.load import from_text, load_kernel
from penstock.engines.base import Given
from penstock.engines.pim.accuracy import Beside
from penstock.models.pim.rules import check

__all__ = ["Written", "beyond", "drawn"]

Floats = NDArray[np.float64]
_SIZES = (1, 2, 3, 5, 8, 17, 33, 70)
#: an operation's last places, of any library of functions
_EPS, _STEPS, _TINY = 2.0**-52, 4, 2.0**-1022


def _roomy() -> ps.Target:
    """A part that holds any number of banks."""
    plenty = dict.fromkeys(("lut", "ff", "dsp", "bram"), 1 << 24)
    return replace(ps.target("small"), name="test-roomy", **plenty)


@dataclass(frozen=True)
class Written:
    """A recurrence and a run of it. `lines`: those before the output, then the output, in which `{r}` stands for
    `reading`, the expression that reads the state."""

    shapes: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    lines: tuple[str, ...]
    reading: str
    output: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tokens: int = 3
    seed: int = 1
    begins: bool = False  #: whether the state is given

    @property
    def text(self) -> str:
        dims = lambda own: f"[{', '.join(own)}]" if own else ""
        kinds = (
            f"{n}: {'state' if n == 'S' else 'input'}{dims(s)}" for n, s in self.shapes.items()
        )
        body = [*self.lines, f"y <- {self.output.format(r=self.reading)}"]
        return f"recurrence f({', '.join(kinds)})\n" + "".join(f"  {line}\n" for line in body)

    @property
    def python(self) -> str:
        dims = lambda own: f"[{', '.join(map(repr, own))}]" if own else ""
        kinds = (
            f"{n}: ps.{'State' if n == 'S' else 'Input'}{dims(s)}" for n, s in self.shapes.items()
        )
        called = re.compile(r"\b([a-z]+)\(")
        body = [called.sub(r"ps.\1(", line.replace("<-", "=")) for line in self.lines]
        output = called.sub(r"ps.\1(", self.output.format(r=self.reading))
        new = "S, " if any(line.startswith("S <-") for line in self.lines) else ""
        lines = "".join(f"    {line}\n" for line in [*body, f"return {new}{output}"])
        head = "import penstock as ps\n\n@ps.recurrence\ndef f("
        return f"{head}{', '.join(kinds)}):\n{lines}"

    def compiled(self, path: Any = None) -> Any:
        """Return the design; of the function where a path for it is given."""
        kernel = from_text(self.text, "f.psk")
        if path is not None:
            path.write_text(self.python)
            kernel = load_kernel(str(path))
        return ps.compile(kernel, dims=dict(self.sizes), target=_roomy(), **self.options)

    @property
    def arrays(self) -> dict[str, Floats]:
        rng = np.random.default_rng(self.seed)
        lead = (self.options["batch"], self.options["heads"])
        made = {}
        for name, dims in self.shapes.items():
            own = [self.sizes[d] for d in dims]
            if name != "S":
                made[name] = rng.normal(size=(self.tokens, *lead, *own))
            elif self.begins:
                made[name] = rng.normal(size=(*lead, *own))
        return made


# -- in float64


class Interval:
    """Numbers of which the ends are known, float64's rounding included whatever the order of a sum."""

    __array_ufunc__ = None  # so that arrays leave operations to it

    def __init__(self, low: Any, high: Any, slack: Any = 0.0) -> None:
        self.low, self.high = np.minimum(low, high) - slack, np.maximum(low, high) + slack

    @staticmethod
    def of(value: Any) -> Interval:
        return value if isinstance(value, Interval) else Interval(value, value)

    @property
    def size(self) -> Any:
        return np.maximum(abs(self.low), abs(self.high))

    def rounded(self, steps: int = _STEPS) -> Interval:
        return Interval(self.low, self.high, steps * _EPS * self.size + _TINY)

    def _ends(self, other: Any, op: Callable[..., Any]) -> Interval:
        b = Interval.of(other)
        ends = [op(x, y) for x, y in product((self.low, self.high), (b.low, b.high))]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends)).rounded()

    def __add__(self, other: Any) -> Interval:
        return self._ends(other, np.add)

    def __mul__(self, other: Any) -> Interval:
        return self._ends(other, np.multiply)

    def __truediv__(self, other: Any) -> Interval:
        return self._ends(other, np.divide)  # divisors are above 0

    def __sub__(self, other: Any) -> Interval:
        return self._ends(other, np.subtract)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Interval:
        return Interval.of(other) - self

    def __rtruediv__(self, other: Any) -> Interval:
        return Interval.of(other) / self

    def __neg__(self) -> Interval:
        return Interval(-self.low, -self.high)

    def __gt__(self, other: Any) -> Interval:
        """1 where it is so, 0 where it is not, both where the ends do not tell."""
        b = Interval.of(other)
        return Interval(self.low > b.high, self.high > b.low)

    def __le__(self, other: Any) -> Interval:
        return 1 - (self > other)

    def __matmul__(self, other: Any) -> Interval:
        return (self * other).sum()

    __rmatmul__ = __matmul__

    def sum(self) -> Interval:
        slack = np.size(self.low) * _EPS * np.sum(self.size)
        return Interval(np.sum(self.low), np.sum(self.high), slack)

    def rising(self, op: Callable[..., Any]) -> Interval:
        return Interval(op(self.low), op(self.high)).rounded(_STEPS + np.size(self.low))

    def abs(self) -> Interval:
        low = np.maximum(0, np.maximum(self.low, -self.high))
        return Interval(low, self.size)


def _where(condition: Any, a: Any, b: Any) -> Interval:
    test, a, b = map(Interval.of, (condition, a, b))
    low = np.where(
        test.low > 0.5, a.low, np.where(test.high > 0.5, np.minimum(a.low, b.low), b.low)
    )
    high = np.where(
        test.low > 0.5, a.high, np.where(test.high > 0.5, np.maximum(a.high, b.high), b.high)
    )
    return Interval(low, high)


_sigmoid = np.errstate(over="ignore")(lambda x: 1 / (1 + np.exp(-x)))
_NUMPY: dict[str, Any] = {
    **{n: getattr(np, n) for n in ("exp", "tanh", "log", "sqrt", "sum", "prod", "max", "min")},
    **{n: getattr(np, n) for n in ("outer", "abs", "where")},
    "sigmoid": _sigmoid,
    "gaussian": lambda x: np.exp(-x * x),
    "norm": lambda x: np.sqrt(np.sum(x * x)),
}
_RISING = {n: _NUMPY[n] for n in ("exp", "tanh", "log", "sqrt", "prod", "max", "min", "sigmoid")}
#: the same of intervals; products are of numbers above 0
_INTERVALS: dict[str, Any] = {
    **{n: lambda x, op=op: Interval.of(x).rising(op) for n, op in _RISING.items()},
    "sum": lambda x: Interval.of(x).sum(),
    "abs": lambda x: Interval.of(x).abs(),
    "where": _where,
    "gaussian": lambda x: (-(x.abs() * x.abs())).rising(np.exp),
    "norm": lambda x: (x.abs() * x.abs()).sum().rising(lambda y: np.sqrt(np.maximum(y, 0))),
}


def _run(lines: Sequence[str], names: dict[str, Any]) -> dict[str, Any]:
    for line in lines:
        name, _, expression = line.replace(" <- ", " = ", 1).partition(" = ")
        names[name] = eval(expression, {}, names)
    return names


def in_float64(made: Written, bound: Floats) -> tuple[list[list[Interval]], Floats, float]:
    """Return the output of each token and head, where the unit's output may be a `bound` (tokens, heads, …) away; the last
    states; and the largest number of the states and of what reads them."""
    shape = (made.options["batch"], made.options["heads"])
    arrays, outputs, last, most = made.arrays, [[] for _ in range(made.tokens)], [], 0.0
    alone = [line for line in made.lines if line.startswith("z = ")]
    for item, at in enumerate(np.ndindex(*shape)):
        rows = [made.sizes[d] for d in made.shapes["S"]]
        state = arrays["S"][at] if made.begins else np.zeros(rows)
        for token in range(made.tokens):
            own = {n: a[(token, *at)] for n, a in arrays.items() if n != "S"}
            names = _run(made.lines, {**_NUMPY, **own, "None": None, "S": state})
            state = names["S"]
            read, away = eval(made.reading, {}, names), bound[token, item]
            spans = {n: Interval.of(value) for n, value in own.items()}
            names = _run(alone, {**_INTERVALS, **spans})
            names["r_"] = Interval(read, read, away)
            outputs[token].append(Interval.of(eval(made.output.format(r="r_"), {}, names)))
            most = max(most, float(np.abs(state).max()), float(np.abs(read).max()))
        last.append(state)
    return outputs, np.array(last), most


def beyond(made: Written, design: Any, run: Any) -> list[str]:
    """Return what of a golden run lies further from float64 than the bound; `saturated` alone where a number left float16, as the reference's may too,
    `unbounded` where there is no bound."""
    work = design.workload(Given(data=made.arrays, options={"tokens": made.tokens, "first": 0}))
    mode = design.recurrent.mode
    found, _, behind = Beside(work.layout, work._final_course(run.codes)).exactly
    bound, last_bound = list(found.values())[-1][1], behind.exact.state.error
    outputs, last, most = in_float64(made, bound)
    if run.counters["saturated"]:
        assert design.device.format == "float16" and most + bound.max() > 1e3
        return ["saturated"]
    if not np.isfinite(bound).all():  # a quotient of what was read
        assert len(found) > 1
        return ["unbounded"]
    wrong = [text for made in work.programs for text in check(made.schedule)]
    found = run.result["y"].reshape(made.tokens, len(outputs[0]), *run.result["y"].shape[3:])
    for token, item in np.ndindex(found.shape[:2]):
        own, value = outputs[token][item], found[token, item]
        assert np.shape(own.low) == value.shape
        if not ((own.low <= value) & (value <= own.high)).all():
            wrong.append(f"y of token {token}, head {item}: {value}, not {own.low} to {own.high}")
    if mode == "update":
        if design.recurrent.turned:
            last_bound = last_bound.swapaxes(1, 2)
        away = np.abs(run.result["S"].reshape(last.shape) - last)
        if not (away <= last_bound).all():
            wrong.append(f"the last state is {away.max()} away")
    return wrong


# -- draws


class _Draw:
    """Expressions of a recurrence; `turned`: S @ q reads the state, so that its columns are the unit's rows."""

    def __init__(self, random: Random, shapes: Mapping[str, tuple[str, ...]], turned: bool) -> None:
        self.random, self.turned = random, turned
        self.inputs = {
            d: [n for n, s in shapes.items() if s == d and n != "S"] for d in (("k",), ("v",), ())
        }
        #: dimensions along the unit's rows and across
        self.own, self.other = ("v", "k") if turned else ("k", "v")

    def one(self, *options: Any) -> Any:
        return self.random.choice(options)

    def vector(self, dim: str, depth: int = 2) -> str:
        atom = self.one(*self.inputs[dim,])
        if depth == 0 or self.random.random() < 0.4:
            return str(atom)
        a, b = self.vector(dim, depth - 1), self.vector(dim, depth - 1)
        s = self.scalar(depth - 1)
        return str(
            self.one(
                f"({a} * {b})", f"({a} + {b})", f"({a} - {b})", f"({s} * {a})", f"({a} - {s})", f"(-{a})",
                f"({a} / {self.positive(dim, depth - 1)})", f"tanh({a})", f"sigmoid({a})", f"gaussian({a})", f"abs({a})",
                f"sqrt(abs({a}))", f"log(1 + abs({a}))", f"where({a} > {b}, {a}, {s})", f"where({a} <= 0, {b}, {a})",
                f"(exp({a}) / sum(exp({a})))",
            )
        )  # fmt: skip

    def scalar(self, depth: int = 1) -> str:
        if depth <= 0 or self.random.random() < 0.5:
            return str(self.one(*self.inputs[()], "2", "0.5", "3", "(1 / 3)"))
        dim = self.one("k", "v")
        a, b = self.vector(dim, depth - 1), self.vector(dim, depth - 1)
        return str(
            self.one(
                f"tanh(sum({a}))", f"({a} @ {b})", f"max({a})", f"min({a})", f"norm({a})",
                f"prod(sigmoid({a}))", f"({self.scalar(depth - 1)} - {self.scalar(depth - 1)})",
            )
        )  # fmt: skip

    def positive(self, dim: str = "", depth: int = 1) -> str:
        a = self.vector(dim, depth) if dim else self.scalar(depth)
        return str(self.one(f"(1 + {a} * {a})", f"exp(tanh({a}))", "2", "4"))

    def along(self, vector: str, dim: str) -> str:
        """A vector beside the state: along its rows as a column, along its columns as a row."""
        if dim == "k":
            return f"{vector}[:, None]"
        return str(self.one(f"{vector}[None, :]", vector))

    def factor(self, vectors: bool = True, over: bool = False) -> str:
        """What a state, or a product that goes to it, may be multiplied by; or divided by (`over`)."""
        if not vectors or self.random.random() < 0.4:
            return self.positive() if over else self.scalar()
        own = self.own
        return self.along(self.positive_vector(own) if over else self.vector(own), own)

    def positive_vector(self, dim: str) -> str:
        a = self.vector(dim, 1)
        return str(self.one(f"(1 + {a} * {a})", f"exp(tanh({a}))", f"(0.5 + sigmoid({a}))"))


class _Update(_Draw):
    """The new state: `shared` is the vector that all products have, `side` where it lies, unless each is on its own (`free`)."""

    def __init__(self, random: Random, shapes: Mapping[str, tuple[str, ...]], turned: bool) -> None:
        super().__init__(random, shapes, turned)
        self.most, self.free = self.one(1, 1, 2, 3), self.one(False, False, True)
        self.side = self.one(self.own, self.other)
        self.shared = self.vector(self.side)
        #: a factor along the unit's rows would part products that share a vector along them
        self.vectors = self.most == 1 or self.free or self.side == self.other
        self.products = 0

    def product(self) -> str:
        """An outer product of a vector along rows and one along columns."""
        self.products += 1
        pair = {d: self.vector(d) for d in "kv"}
        if self.most > 1 and not self.free:
            pair[self.side] = self.shared
        k, v = pair["k"], pair["v"]
        row, column = f"{v}[None, :]", f"{k}[:, None]"
        made = self.one(
            f"outer({k}, {v})", f"outer({k}, {v})", f"outer({v}, {k}).T", f"({column} * {row})", f"({row} * {column})",
            f"({column} @ {row})", f"({column} * {v})", f"({v}[:, None] * {k}).T", f"({v}[:, None] @ {k}[None, :]).T",
        )  # fmt: skip
        if self.random.random() < 0.4:
            made = self.one(
                f"({self.factor(self.vectors)} * {made})", f"({made} * {self.factor(self.vectors)})", f"(-{made})",
                f"({made} / {self.factor(self.vectors, over=True)})",
            )  # fmt: skip
        if self.most == 1 and self.random.random() < 0.3:
            other = self.along(self.vector(self.other, 1), self.other)
            made = self.one(f"({made} * {other})", f"({other} * {made})", f"{made} ** 2")
        return str(made)

    def state(self, depth: int) -> str:
        """The state, its decays and products."""
        if depth == 0:
            return "S"
        inner, vectors = self.state(depth - 1), self.vectors
        if self.products < self.most and self.random.random() < 0.6:
            p = self.product()
            return str(
                self.one(
                    f"({inner} + {p})", f"({p} + {inner})", f"({inner} - {p})", f"({p} - {inner})"
                )
            )
        return str(
            self.one(
                f"({self.factor(vectors)} * {inner})", f"({inner} * {self.factor(vectors)})", f"(-{inner})",
                f"({inner} / {self.factor(vectors, over=True)})", f"({inner} + {self.factor()} * S)",
                f"(S / {self.factor(over=True)} - {inner})",
            )
        )  # fmt: skip

    def new(self) -> list[str]:
        made = self.state(self.one(1, 2, 3, 4))
        while self.products == 0 or (self.random.random() < 0.1 and self.products < self.most):
            made = f"{made} + {self.product()}"
        if self.random.random() < 0.3:
            p = self.product() if self.products < self.most else "S * 0.5"
            return [f"t = {made}", f"S <- t + {p}"]
        return [f"S <- {made}"]


def _reading(draw: _Draw) -> str:
    """What reads the state: a sum along the unit's rows, of the state times factors along them."""
    own, matrix = draw.own, "S"
    for _ in range(draw.one(0, 0, 1, 2)):
        matrix = draw.one(
            f"({draw.factor()} * {matrix})", f"({matrix} * {draw.factor()})", f"(-{matrix})",
            f"({matrix} / {draw.factor(over=True)})", f"{matrix}.T.T",
        )  # fmt: skip
    q = draw.vector(own)
    beside, axis = draw.along(q, own), draw.one(0, -2) if own == "k" else draw.one(1, -1)
    if own == "k":
        forms = [f"({q} @ {matrix})", f"({matrix}.T @ {q})", f"sum({matrix}.T * {q}, axis=1)"]
    else:
        forms = [
            f"({matrix} @ {q})",
            f"({q} @ {matrix}.T)",
            f"sum({matrix}.T * {q}[:, None], axis=0)",
        ]
    forms += [f"sum({beside} * {matrix}, axis={axis})", f"sum({matrix} * {beside}, axis={axis})"]
    return str(draw.one(*forms, forms[0], f"sum({matrix}, axis={axis})"))


def _output(draw: _Draw) -> str:
    """What becomes of the reading, a vector across the unit's rows."""
    v, s = draw.vector(draw.other), draw.scalar()
    return str(
        draw.one(
            "{r}", "{r}", f"({s} * {{r}})", f"({{r}} + {v})", f"({v} - {{r}}) * {v}", f"{{r}} / {draw.positive()}",
            "tanh({r})", "-{r}", f"{{r}} @ {v}", f"{v} * {{r}}", "sum({r})", "{r} * sum({r})", "max({r})", "min({r})",
            f"where({v} > 0, {{r}}, {v})", "abs({r})", f"sigmoid({{r}} - {s})",
        )
    )  # fmt: skip


def drawn(random: Random, **fixed: Any) -> Written:
    """Return a recurrence and a run of it; `fixed`: options of the device."""
    one = lambda *options: random.choice(options)
    # two vectors along each dimension; shapes of one name or a number are as good
    shapes = {"S": ("k", "v"), "d": ("k",), "q": ("k",), "e": ("v",), "w": ("v",), "a": (), "b": ()}
    turned = random.random() < 0.4
    cache = random.random() < 0.2 and fixed.get("unit", "pimba") == "pimba"
    draw = _Update(random, shapes, turned)
    lines: list[str] = []
    if random.random() < 0.3:
        dim = one("k", "v")
        lines.append(f"z = {draw.vector(dim)}")
        draw.inputs[dim,].append("z")
    reads = not cache and random.random() < 0.3 and fixed.get("unit", "pimba") == "pimba"
    if reads:  # what the old state gives makes the new one
        lines.append(f"u = {_reading(draw)}")
        draw.inputs[draw.other,].append("u")
    lines += [] if cache else draw.new()
    reading = _reading(draw)
    if reads:
        draw.inputs[draw.other,].remove("u")
    output = _output(draw)
    format = one("mx8", "float16", "float16")
    options: dict[str, Any] = {"format": format, "heads": one(1, 2, 3), "batch": one(1, 1, 2)}
    options["schedule"], options["banks"] = one(("together", 2), ("halves", 4), ("together", 8))
    if format == "mx8":
        options["rounding"] = one("nearest", "stochastic")
    if not cache and not reads:
        options["unit"] = one("pimba", "pimba", "per-bank", "time-multiplexed", "hbm-pim")
    sizes = {"k": one(*_SIZES), "v": one(*_SIZES)}
    options |= fixed
    begins, tokens, seed = cache or one(False, True), one(1, 2, 3, 4), random.randrange(1 << 16)
    return Written(
        shapes, sizes, tuple(lines), reading, output, options, tokens, seed, bool(begins)
    )
