"""What a kernel's text comes to, by docs/reference/dsl.md and docs/explanation/analytics.md: no graph, no plan, one tuple after the other.

Python reads the expressions: operators and functions of `Value` take the place of the kernel's.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from .whole import LINE, Whole, do

__all__ = ["Engine", "Numbers", "Outcome", "batches", "scores", "train"]

#: on constants alone, in float64
_FOLDED: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gaussian": lambda x: np.exp(-x * x),
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "norm": lambda v, axis=None: np.sqrt(np.sum(v * v, axis=axis)),
    "outer": np.outer,
    "where": lambda c, a, b: np.where(c != 0, a, b),
}
_REDUCTIONS = {"sum": "add", "prod": "mul", "norm": "add", "max": "max", "min": "min"}
_MERGES = {"+": "add", "*": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Engine:
    """What of the engine the order of sums depends on. `ports`: the rows of each, as arrays by variable."""

    lanes: int
    threads: int
    ports: Sequence[Sequence[Mapping[str, Any]]]


@dataclass
class Outcome:
    """Models as arrays of the arithmetic's numbers."""

    models: dict[str, Any]
    epochs: int = 0
    converged: bool = False


class Value:
    """An array of the arithmetic's numbers; without any (None) one that is not known in this pass."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, meaning: _Meaning, codes: Any) -> None:
        self.meaning, self.codes = meaning, codes

    def __pow__(self, exponent: float) -> Any:
        if exponent == 0.5:
            return self.meaning.call("sqrt", self)
        square, result, bits = self, None, int(exponent)
        while bits:
            if bits & 1:
                result = square if result is None else result * square
            bits >>= 1
            square = square * square if bits else square
        return result

    def __getitem__(self, item: Any) -> Value:
        if isinstance(item, Value):  # a place is a row's number
            return self.meaning.chosen(self, item)
        if isinstance(item, Whole):
            if item.cells is NotImplemented:
                return self.meaning.unknown()
            return Value(self.meaning, item.rows(self.codes, self.meaning.zero))
        return Value(self.meaning, None if self.codes is None else self.codes[item])

    @property
    def T(self) -> Value:
        return Value(self.meaning, None if self.codes is None else self.codes.T)

    def __matmul__(self, other: Any) -> Value:
        return self.meaning.product(self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return self.meaning.product(other, self)


class Counted(Value):
    """How many places of a bag there are: a number, and an integer where one is asked for."""

    def __init__(self, meaning: _Meaning, index: Whole) -> None:
        known = index.cells is not NotImplemented
        super().__init__(meaning, meaning.value(float(index.present())).codes if known else None)
        if known:
            self.places = np.asarray(index.present())


_EXACT = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def _operator(name: str, turned: bool) -> Callable[..., Any]:
    def apply(a: Value, b: Any) -> Any:
        if isinstance(b, Whole):
            return NotImplemented
        pair = (b, a) if turned else (a, b)
        found = a.meaning.call(name, *pair)
        places = [getattr(v, "places", None if isinstance(v, Value) else v) for v in pair]
        if name in _EXACT and all(p is not None and np.all(p == np.rint(p)) for p in places):
            found.places = np.asarray(_EXACT[name](*places)).astype(int)  # type: ignore[attr-defined]
        return found

    return apply


def _of_integers(symbol: str) -> Callable[..., Any]:
    """An operator that makes integers of places and counts."""
    return lambda a, b: getattr(operator, symbol)(a.meaning.integer(a), b)


for _name in ("mod", "floordiv"):
    setattr(Value, f"__{_name}__", _of_integers(_name))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(Value, f"__{_name}__", _operator(_name.removeprefix("true"), False))
    setattr(Value, f"__r{_name}__", _operator(_name.removeprefix("true"), True))
for _symbol, _name, _turned in (("lt", "lt", 0), ("gt", "lt", 1), ("le", "le", 0), ("ge", "le", 1)):
    setattr(Value, f"__{_symbol}__", _operator(_name, bool(_turned)))
Value.__neg__ = lambda a: a.meaning.call("neg", a)  # type: ignore[attr-defined]


class _Meaning:
    """The functions of kernels over one arithmetic and engine, and the merges of the pass that is under way."""

    def __init__(self, arithmetic: Any, engine: Engine) -> None:
        self.arithmetic, self.engine = arithmetic, engine
        self.groups: list[list[int | None]] = []  # of a batch: places of tuples, by thread
        self.values: list[list[Value]] = []  # of each merge, one a tuple
        self.at = 0
        self.batch_ends = False  # after the pass of the batch's last tuple
        self.names: dict[str, Any] = {
            name: lambda *a, name=name, **k: self._function(name, *a, **k) for name in _FOLDED
        }
        self.names |= {"merge": self.merge, "mean": self.mean, "_array": self._array}
        self.names |= {"number": self.number, "count": self.count, "hash": self.hash}
        self.const = np.frompyfunc(cache(arithmetic.const), 1, 1)
        self.zero = arithmetic.const(0.0)
        self.lanes = engine.lanes  # 0: sums are one tree over the next power of two

    def unknown(self) -> Value:
        return Value(self, None)

    def whole(self, given: Any) -> Whole:
        """An index of a tuple, None in the pass that has none."""
        if given is None:
            return Whole(self, NotImplemented)
        wide = np.asarray(np.ma.getdata(given)).dtype.itemsize == 8
        cells = [None if np.ma.is_masked(v) else int(v) for v in np.ma.atleast_1d(given)]
        return Whole(self, cells if np.ndim(given) else cells[0], wide)

    def number(self, index: Whole) -> Value:
        if index.cells is NotImplemented:
            return self.unknown()
        cells = np.asarray(index.cells, object)
        exact = np.frompyfunc(lambda v: self.arithmetic.const(0 if v is None else v), 1, 1)
        return Value(self, np.asarray(exact(cells), object))

    def count(self, index: Whole) -> Any:
        return Counted(self, index)

    def integer(self, value: Any) -> Whole:
        """What is a place or a count, or made of these, as an integer."""
        if isinstance(value, Whole):
            return value
        return Whole(self, NotImplemented if value.codes is None else value.places.tolist())

    def hash(self, index: Any, seed: int = 0) -> Whole:
        index = self.integer(index)
        return index if index.cells is NotImplemented else index.hashed(seed)

    def chosen(self, table: Value, place: Value) -> Value:
        if table.codes is None or place.codes is None:
            return self.unknown()
        at = getattr(place, "places", None)
        assert at is not None, "only a place chooses a row"
        return Value(self, Whole(self, at.tolist()).rows(table.codes, self.zero))

    @staticmethod
    def _array(value: Any) -> Any:
        return value if isinstance(value, Value) else np.asarray(value, np.float64)

    def value(self, number: Any) -> Value:
        if isinstance(number, Value):
            return number
        return Value(self, np.asarray(self.const(np.asarray(number, np.float64)), object))

    def call(self, name: str, *operands: Any) -> Value:
        values = [self.value(v).codes for v in operands]
        if any(v is None for v in values):
            return Value(self, None)
        apply = np.frompyfunc(getattr(self.arithmetic, name), len(values), 1)
        return Value(self, np.asarray(apply(*values), object))

    def _function(self, name: str, *operands: Any, **options: Any) -> Any:
        if not any(isinstance(v, Value) for v in operands):
            with np.errstate(all="ignore"):
                return np.asarray(_FOLDED[name](*operands, **options), np.float64)
        if name in _REDUCTIONS:
            return self.reduce(name, *operands, **options)
        if name in ("argmax", "argmin"):
            return self.place(name, *operands, **options)
        if name == "outer":
            u, v = map(self.value, operands)
            return u[:, None] * v[None, :]
        return self.call(name, *operands)

    def _each(self, name: str, op: str, lines: Any) -> Value:
        """One result for each line, in the shape of an array of them."""
        found = np.empty(len(lines), object)
        if not self.lanes:
            name = "full"
        for n, line in enumerate(lines):
            found[n] = getattr(self.arithmetic, name)(
                op, list(line), *[self.lanes] * (name == "row")
            )
        return Value(self, found)

    def reduce(self, name: str, v: Value, axis: int | None = None) -> Value:
        if v.codes is None:
            return v
        op, codes = _REDUCTIONS[name], v.codes
        if codes.size == 1:
            only = self.call("abs", v) if name == "norm" else v
            shape = () if axis is None else codes.shape[1:]
            return Value(self, only.codes.reshape(shape))
        if name == "norm":
            codes = (v * v).codes
        if codes.ndim == 1:
            total = self._each("row", op, [codes])[0]
        elif axis is None:
            total = self._each("row", op, codes)
            total = total[0] if len(codes) == 1 else self._each("row", op, [total.codes])[0]
        elif axis in (0, -2):
            total = self._each("tree", op, codes.T)
        else:
            total = self._each("row", op, codes)
        one = np.empty((), object)
        if not isinstance(total.codes, np.ndarray):
            one[()] = total.codes
            total = Value(self, one)
        return self.call("sqrt", total) if name == "norm" else total

    def place(self, name: str, v: Value, axis: int | None = None) -> Value:
        """The first NaN's place along an axis, else that of the first element that none is beyond."""
        if v.codes is None:
            return v
        holds = lambda a, b: self.arithmetic.truth(self.arithmetic.le(a, b))

        def first(line: Any) -> float:
            pairs = lambda k: ((a, line[k]) if name == "argmax" else (line[k], a) for a in line)
            nan = (k for k, a in enumerate(line) if not holds(a, a))
            best = (k for k in range(len(line)) if all(holds(*pair) for pair in pairs(k)))
            return float(next(nan, next(best, 0)))

        codes = v.codes.reshape(-1) if axis is None else np.moveaxis(v.codes, axis, -1)
        lines = codes.reshape(-1, codes.shape[-1])
        places = np.reshape([first(line) for line in lines], codes.shape[:-1])
        found = self.value(places)
        found.places = places.astype(int)  # type: ignore[attr-defined]
        return found

    def product(self, left: Any, right: Any) -> Value:
        a, b = self.value(left).codes, self.value(right).codes
        if a is None or b is None:
            return Value(self, None)
        rows = a.reshape(-1, a.shape[-1])
        multiply = np.frompyfunc(self.arithmetic.mul, 2, 1)
        if b.ndim == 1:
            total = self._each("row", "add", multiply(rows, b)).codes
            return Value(self, total.reshape(a.shape[:-1]))
        lines = [multiply(row, column) for row in rows for column in b.T]
        return Value(
            self, self._each("tree", "add", lines).codes.reshape(*a.shape[:-1], b.shape[1])
        )

    # merges: the first pass collects a value of each tuple, the second has what they come to

    def merge(self, v: Any, n: int = 0, op: str = "+") -> Value:
        if not isinstance(v, Value):  # merge(1) counts
            tuples = sum(k is not None for group in self.groups for k in group)
            return self.value(float(tuples)) if self.batch_ends else Value(self, None)
        number, self.at = self.at, self.at + 1
        if v.codes is not None:
            if number == len(self.values):
                self.values.append([])
            self.values[number].append(v)
            return Value(self, None)
        first = self.values[number][0].codes
        found = np.empty(first.shape, object)
        for place in np.ndindex(first.shape):
            of = [value.codes[place] for value in self.values[number]]
            groups = [[None if k is None else of[k] for k in group] for group in self.groups]
            found[place] = self.arithmetic.merged(_MERGES[op], groups)
        return Value(self, found)

    def mean(self, v: Any, n: int = 0) -> Value:
        total = self.merge(v, n)
        count = sum(k is not None for group in self.groups for k in group)
        return total / float(count) if total.codes is not None else total


class Numbers(ast.NodeTransformer):
    """Literals become arrays of float64, and so do comparisons of them. `count`: tuples of a merge, once one was seen."""

    count: int | None = None

    def _wrapped(self, node: Any) -> Any:
        return ast.Call(ast.Name("_array", ast.Load()), [node], [])

    def visit_List(self, node: ast.List) -> Any:
        return self._wrapped(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return self._wrapped(node) if isinstance(node.value, int | float) else node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Pow):
            return ast.BinOp(self.visit(node.left), node.op, node.right)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        return self._wrapped(self.generic_visit(node))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return ast.Subscript(self.visit(node.value), node.slice, node.ctx)

    def visit_Call(self, node: ast.Call) -> Any:
        name = getattr(node.func, "id", "")
        if name == "hash":
            return ast.Call(node.func, [self.visit(node.args[0]), *node.args[1:]], [])
        if name not in ("merge", "mean"):
            return ast.Call(node.func, [self.visit(a) for a in node.args], node.keywords)
        value, *rest = node.args
        self.count = rest[0].value if rest else 0  # type: ignore[attr-defined]
        return ast.Call(node.func, [self.visit(value), *rest], node.keywords)


class _Kernel:
    """A kernel's text, line by line: values in order (`until` among them), and the models' new ones as "<-NAME"."""

    def __init__(self, text: str, sizes: Mapping[str, int]) -> None:
        self.kinds: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.metas: dict[str, float] = {}
        self.lines: list[tuple[str, CodeType]] = []
        self.changes: list[tuple[str, str]] = []  # model and sign, of the lines "@0 at", "@0", …
        self.batch = 1
        self.starts: dict[str, Any] = {}
        self.epochs, self.reader = 1, Numbers()
        head, *body = text.strip().splitlines()
        for name, kind, dims, default in re.findall(
            r"(\w+): (\w+)(?:\[([\w, ]+)\])?(?: = ([-\d.e]+))?", head
        ):
            self.kinds[name] = kind
            self.shapes[name] = tuple(
                sizes[d] if d in sizes else int(d) for d in dims.split(", ") if d
            )
            if kind == "meta":
                self.metas[name] = float(default)
        for line in map(str.strip, body):
            word, _, rest = line.partition(" ")
            if word == "epochs":
                self.epochs = int(rest)
            elif word == "batch":
                self.batch = int(rest)
            elif found := LINE.fullmatch(line):
                model, index, sign, value = found.groups()
                self.add(f"@{len(self.changes)} at", index)
                self.add(f"@{len(self.changes)}", value)
                self.changes.append((model, sign))
            elif word == "init":
                name, _, start = rest.partition(" = ")
                self.starts[name] = eval(start, {"uniform": lambda *a, seed=1: (*a, seed)})
            elif word == "until":
                self.add(word, rest)
            elif word == "score":
                self.add(*rest.split(" = ", 1))
            else:
                sign, _, expression = rest.partition(" ")
                self.add(word if sign == "=" else f"<-{word}", expression)

    def add(self, name: str, expression: str) -> None:
        tree = ast.fix_missing_locations(self.reader.visit(ast.parse(expression, mode="eval")))
        self.lines.append((name, compile(tree, expression, "eval")))

    def start(self, name: str) -> Any:
        start, shape = self.starts.get(name, 0.0), self.shapes[name]
        if isinstance(start, tuple):
            low, high, seed = start
            return np.random.default_rng(seed).uniform(low, high, shape)
        return np.broadcast_to(np.asarray(start, np.float64), shape)


def batches(engine: Engine, count: int) -> Iterator[list[list[tuple[int, int] | None]]]:
    """Yield the groups of each batch: for each thread the (port, row) that it takes, or None."""
    left = [list(range(len(rows))) for rows in engine.ports]
    share = engine.threads // len(engine.ports)
    while any(left):
        groups: list[list[tuple[int, int] | None]] = []
        position = 0
        while any(left) and (count == 0 or position < count):
            group: list[tuple[int, int] | None] = [None] * engine.threads
            for thread in range(engine.threads):
                port = thread // share
                if left[port] and (count == 0 or position + thread < count):
                    group[thread] = (port, left[port].pop(0))
            groups.append(group)
            position += engine.threads
        yield groups


def train(text: str, sizes: Mapping[str, int], arithmetic: Any, engine: Engine) -> Outcome:
    """Return what the kernel `text` learns."""
    kernel, meaning = _Kernel(text, sizes), _Meaning(arithmetic, engine)
    count = kernel.batch if kernel.reader.count is None else kernel.reader.count
    indices = [n for n, kind in kernel.kinds.items() if kind == "index"]
    if indices or kernel.changes:
        meaning.lanes = 0
    fixed = {name: meaning.value(number) for name, number in kernel.metas.items()}
    models = {
        n: meaning.value(kernel.start(n)) for n, kind in kernel.kinds.items() if kind == "model"
    }
    tuples = [n for n, kind in kernel.kinds.items() if kind in ("input", "output")]
    rows = [
        [
            {n: meaning.value(np.reshape(row[n], kernel.shapes[n])) for n in tuples}
            | {n: meaning.whole(row[n]) for n in indices}
            for row in port
        ]
        for port in engine.ports
    ]
    outcome = Outcome({})

    def one_pass(inputs: Mapping[str, Value]) -> dict[str, Value]:
        meaning.at = 0
        names = {**meaning.names, **fixed, **models, **inputs}
        for name, code in kernel.lines:
            names[name] = eval(code, {}, names)
        return names

    while outcome.epochs < kernel.epochs and not outcome.converged:
        last: dict[str, Value] = {}
        for groups in batches(engine, count):
            places = [place for group in groups for place in group if place is not None]
            numbers = iter(range(len(places)))
            meaning.values = []
            meaning.groups = [
                [None if p is None else next(numbers) for p in group] for group in groups
            ]
            meaning.batch_ends = False
            changes = []
            for port, row in places:
                last = one_pass(rows[port][row])
                changes += [
                    (
                        model,
                        _index(meaning, last[f"@{k} at"]),
                        sign,
                        meaning.value(last[f"@{k}"]).codes,
                    )
                    for k, (model, sign) in enumerate(kernel.changes)
                ]
            meaning.batch_ends = True
            if kernel.reader.count is not None:
                unknown = {name: Value(meaning, None) for name in tuples}
                last = one_pass(unknown | {name: meaning.whole(None) for name in indices})
            changed = {model: models[model].codes.copy() for model, _ in kernel.changes}
            do(arithmetic, changed, changes)
            models = {n: meaning.value(last.get(f"<-{n}", models[n])) for n in models}
            models |= {n: Value(meaning, codes) for n, codes in changed.items()}
        outcome.epochs += 1
        outcome.converged = (
            bool(last)
            and "until" in last
            and arithmetic.truth(meaning.value(last["until"]).codes[()])
        )
    outcome.models = {n: value.codes for n, value in models.items()}
    return outcome


def _index(meaning: _Meaning, found: Any) -> Whole:
    return found if isinstance(found, Whole) else Whole(meaning, found.places.tolist())


def scores(
    text: str,
    sizes: Mapping[str, int],
    arithmetic: Any,
    engine: Engine,
    models: Mapping[str, Any],
) -> list[Any]:
    """Return the arithmetic's number for the score `s` of each row, with these models."""
    kernel, meaning = _Kernel(text, sizes), _Meaning(arithmetic, engine)
    given = {name: meaning.value(number) for name, number in kernel.metas.items()}
    given |= {name: meaning.value(np.reshape(v, kernel.shapes[name])) for name, v in models.items()}
    inputs = [n for n, kind in kernel.kinds.items() if kind == "input"]
    needed, lines = {"s"}, list[tuple[str, CodeType]]()
    for name, code in reversed(kernel.lines):
        if name in needed:
            needed |= set(code.co_names)
            lines.insert(0, (name, code))
    found = []
    for row in engine.ports[0]:
        names = {**meaning.names, **given}
        names |= {n: meaning.value(np.reshape(row[n], kernel.shapes[n])) for n in inputs}
        for name, code in lines:
            names[name] = eval(code, {}, names)
        found.append(meaning.value(names["s"]).codes[()])
    return found
