"""Kernels, tables and engines drawn by hypothesis: every operation, axis, region and merge.

All choices are made by the bytes of one string, which hypothesis draws evenly and shrinks towards zeros: the first choice
is always the simplest. Each line of a kernel has a piece of it, so that what becomes of one leaves the others as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

import penstock as ps
from penstock.api import Design, compile
from penstock.dsl.analytics.functions import FUNCTIONS
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.dsl.core.tensor import Tensor
from penstock.host.sources import Table
from penstock.models.heap.reader import read_heap
from penstock.targets import target_named

from .meaning import Engine, Numbers

__all__ = ["FIXED", "FLOATS", "Case", "case", "cases", "refusals"]

FIXED = (
    "fixed:8,8",
    "fixed:4,4",
    "fixed:6,10",
    "fixed:3,12",
    "fixed:16,16",
    "fixed:1,7",
    "fixed:12,0",
)
FLOATS = ("float32", "bfloat16", "float16", "float:6,12")

Shape = tuple[int, ...]

PLENTY = {"lut": 10_000_000, "ff": 10_000_000, "dsp": 10_000, "bram": 10_000}
PORTS = replace(target_named("small"), name="test-ports", ports=4, **PLENTY)


@dataclass(frozen=True)
class Case:
    """A kernel's text, the sizes of its dimensions, a table by its rows and seed, and the engine that is asked for.

    `apart`: variables whose elements are columns of their own; `page`: rows on a page, about.
    """

    text: str
    sizes: tuple[tuple[str, int], ...]
    format: str
    rows: int
    seed: int
    lanes: int
    threads: int
    ports: int = 1
    apart: tuple[str, ...] = ()
    page: int = 16

    #: what the lanes may be
    LANES = (1, 2, 3, 4, 8)

    def variables(self) -> dict[str, Shape]:
        """Return the shapes of inputs and outputs."""
        sizes = dict(self.sizes)
        found = re.findall(r"(\w+): (?:input|output)(?:\[([\w, ]+)\])?", self.text)
        return {
            n: tuple(sizes[d] if d in sizes else int(d) for d in dims.split(", ") if d)
            for n, dims in found
        }

    def python(self) -> Any:
        """Return the kernel as a Python function has it."""
        head, *lines = self.text.strip().splitlines()
        quoted = re.sub(r"\b([de])\b", r'"\1"', head.partition("(")[2].rpartition(")")[0])
        declared = re.sub(r": ([iom])(\w+)", lambda m: f": ps.{m[1].upper()}{m[2]}", quoted)
        body, options, new = [], {"epochs": "1", "init": "", "batch": "None"}, {}
        for word, _, rest in (line.strip().partition(" ") for line in lines):
            if word in ("epochs", "batch"):
                options[word] = rest
            elif word == "init":
                options["init"] += '"{}": {}, '.format(*rest.split(" = "))
            elif word == "score":
                name, _, plain = rest.partition(" = ")
                tree = Numbers().visit(ast.parse(plain, mode="eval"))
                wrapped = ast.unparse(ast.fix_missing_locations(tree))
                body.append(f"{name} = score({wrapped}, name={name!r})")
            else:
                left = word if rest[0] == "=" else f"new_{word}"
                new |= {word: left} if rest[:2] == "<-" else {}
                plain = rest if word == "until" else rest.partition(" ")[2]
                wrapped = ast.unparse(
                    ast.fix_missing_locations(Numbers().visit(ast.parse(plain, mode="eval")))
                )
                body.append(f"until({wrapped})" if word == "until" else f"{left} = {wrapped}")
        models = re.findall(r"(\w+): model", head)
        source = f"@ps.kernel(epochs={options['epochs']}, batch={options['batch']}, init={{{options['init']}}})\ndef f({declared}):\n"
        source += "\n".join(
            f"  {line}" for line in [*body, f"return {', '.join(new[n] for n in models)}"]
        )
        names: dict[str, Any] = {
            "ps": ps,
            "_array": lambda v: v if isinstance(v, Tensor) else np.asarray(v, np.float64),
        }
        exec(source, names | {name: getattr(ps, name) for name in FUNCTIONS}, names)
        return names["f"]

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each input and output."""
        return {
            name: [f"{name}_{k}" for k in range(int(np.prod(shape)))]
            if name in self.apart
            else [name]
            for name, shape in self.variables().items()
        }

    def table(self) -> Table:
        rng = np.random.default_rng(self.seed)
        most = 100 + 8 * sum(int(np.prod(shape)) for shape in self.variables().values())
        size = 1024 if most < 900 else 4096
        pad = "-" * max(0, size // self.page - most)
        columns: dict[str, Any] = {"pad": [pad] * max(self.rows, 1)}
        for name, shape in self.variables().items():
            kind = rng.choice(
                ["float32", "float64", "int16"] if shape == () else ["float32", "float64"]
            )
            numbers = rng.integers(-48, 49, (max(self.rows, 1), int(np.prod(shape)))) / 16
            numbers = np.where(rng.random(numbers.shape) < 0.1, 0, numbers).astype(kind)
            parts = self.columns()[name]
            if name in self.apart or shape == ():
                columns |= {part: numbers[:, k] for k, part in enumerate(parts)}
            else:
                columns[name] = numbers
        order = rng.permutation(list(columns))
        table = Table.from_columns({n: columns[n] for n in order}, "t", page_size=size)
        return table if self.rows else Table(table.schema, table.pages[:0])

    def design(self, table: Table) -> Design:
        """Compile it, by one front end or the other. Raises KernelError (E213, E428) where it divides by 0 or counts too far."""
        return compile(
            self.python() if self.seed % 2 else from_text(self.text, "drawn.psk"),
            PORTS,
            table,
            self.format,
            dims=dict(self.sizes),
            bind={name: self.columns()[name] for name in self.apart},
            choices=Choices(self.lanes, self.threads, self.ports, on_overflow="saturate"),
        )

    def engine(self, table: Table) -> Engine:
        """Return what the judge knows: page k lies on port k mod the number of ports."""
        ports = []
        for q in range(self.ports):
            columns = read_heap(table.schema, table.pages[q :: self.ports])
            count = len(columns["pad"])
            ports.append(
                [
                    {
                        name: np.concatenate([np.ravel(columns[c][k]) for c in parts])
                        for name, parts in self.columns().items()
                    }
                    for k in range(count)
                ]
            )
        return Engine(self.lanes, self.threads, ports)

    def reference(self, port: Any) -> dict[str, Any]:
        """Return a port's rows as `interp` takes them."""
        return {name: np.array([row[name] for row in port]) for name in self.variables()}


_NUMBERS = ("0.5", "2", "-1.5", "0.1", "-0.3", "0.25", "3", "-0.0625", "1")
_GUARDED = {
    "exp({})": "exp(-abs({}))",
    "log({})": "log(abs({}) + 0.5)",
    "sqrt({})": "sqrt(abs({}))",
}
#: bytes for a line, and lines
_PIECE, _PIECES = 96, 18


@contextmanager
def refusals() -> Iterator[None]:
    """Leave a case out that divides by a constant 0, counts too far for a mean, or has a constant that is no number."""
    try:
        yield
    except KernelError as refused:
        if refused.diagnostic.code not in ("E213", "E428", "E445"):
            raise
        reject()


class _Grower:
    """Expressions of a wanted shape from the names in scope."""

    def __init__(self, data: bytes, sizes: list[int], guarded: bool) -> None:
        self.guarded = guarded  # against numbers that are none
        self.pieces = (data[k : k + _PIECE] for k in range(0, len(data), _PIECE))
        self.begin()
        self.sizes = {d: self.one(*sizes) for d in "de"}
        self.pool = [*self.sizes.values(), *self.sizes.values(), self.one(*sizes)]

    def begin(self) -> None:
        """Go on with the next piece."""
        self.bytes = iter(next(self.pieces, b""))

    def one(self, *choices: Any) -> Any:
        return choices[next(self.bytes, 0) % len(choices)]

    def shape(self, most: int = 2) -> Shape:
        return tuple(self.one(*self.pool) for _ in range(self.one(*range(most + 1))))

    def number(self) -> str:
        return self.one(*_NUMBERS)

    def constant(self, shape: Shape) -> str:
        if not shape:
            return self.number()
        step, first = self.one(*range(len(_NUMBERS))), self.one(*range(len(_NUMBERS)))
        numbers = [_NUMBERS[(first + step * k) % len(_NUMBERS)] for k in range(int(np.prod(shape)))]
        rows = [
            f"[{', '.join(numbers[k : k + shape[-1]])}]" for k in range(0, len(numbers), shape[-1])
        ]
        return f"[{', '.join(rows)}]" if len(shape) == 2 else rows[0]

    def leaf(self, scope: dict[str, Shape], shape: Shape) -> str:
        """Return a name, or what one simple operation makes of one, or a constant."""
        fitting = [name for name, has in scope.items() if has == shape]
        if fitting and self.one(True, True, True, False):
            return self.one(*fitting)
        made, function = [], self.one("sum", "max", "norm", "min", "prod", "argmin", "argmax")
        for name, has in scope.items():
            if len(has) > len(shape):
                axes = [k for k in range(len(has)) if has[:k] + has[k + 1 :] == shape]
                made += (
                    [f"{function}({name}, axis={k})" for k in axes]
                    if shape
                    else [f"{function}({name})"]
                )
            elif len(has) == 2 and has[::-1] == shape:
                made.append(f"{name}.T")
            elif len(has) == 1 and len(shape) == 2 and has[0] in shape:
                made.append(
                    f"({name}[:, None] * {{}})" if has[0] == shape[0] else f"({{}} - {name})"
                )
            elif has == () != shape:
                made.append(f"({name} * {{}})")
        form = self.one(*made) if made and self.one(True, True, True, False) else "{}"
        return form.format(self.constant(shape)) if "{" in form else form

    def operands(self, shape: Shape, count: int) -> list[Shape]:
        """Return shapes that broadcast to this one; one of them is the shape itself, or a column meets a row."""
        if len(shape) == 2 and self.one(False, False, True):
            return [(shape[0], 1), self.one((1, shape[1]), shape[1:]), *[shape] * (count - 2)]
        narrow = [
            shape,
            shape,
            shape[1:],
            (),
            *([(shape[0], 1), (1, *shape[1:])] if len(shape) == 2 else []),
        ]
        shapes = [shape, *(self.one(*narrow) for _ in range(count - 1))]
        first = self.one(*range(count))
        return [*shapes[first:], *shapes[:first]]

    def grow(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        if depth <= 0 or not self.one(*range(7)):
            return self.leaf(scope, shape)
        more = [
            ["reduce", "reduce", "dot"],
            ["reduce", "reduce", "matvec"],
            ["matmul", "outer", "transpose"],
        ]
        kinds = ["binary"] * 3 + ["unary", "costly", "compare", "where", *more[len(shape)]]
        if 1 in shape:
            kinds += ["expand"] * 2
        return getattr(self, f"_{self.one(*kinds)}")(scope, shape, depth - 1)

    def _binary(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        a, b = (self.grow(scope, s, depth) for s in self.operands(shape, 2))
        symbol = self.one("+", "-", "*", "*", "/")
        if symbol == "/" and (self.guarded or self.one(True, False)):
            b = f"(abs({b}) + 0.5)"
        return f"({a} {symbol} {b})"

    def _compare(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        a, b = (self.grow(scope, s, depth) for s in self.operands(shape, 2))
        return f"({a} {self.one('<', '>', '<=', '>=')} {b})"

    def _where(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        c, a, b = (self.grow(scope, s, depth) for s in self.operands(shape, 3))
        return f"where({c}, {a}, {b})"

    def _unary(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        inner = self.grow(scope, shape, depth)
        form = self.one(
            "(-{})", "abs({})", "({} ** 2)", "({} ** 3)", "({} ** 7)", "(abs({}) ** 0.5)"
        )
        return form.format(inner)

    def _costly(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        inner = self.grow(scope, shape, depth)
        form = self.one("sigmoid({})", "tanh({})", "gaussian({})", "exp({})", "log({})", "sqrt({})")
        if self.guarded or self.one(True, False):
            form = _GUARDED.get(form, form)
        return form.format(inner)

    def _reduce(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        names = ("sum", "norm", "max", "min", "prod", "sum", "argmin", "argmax")
        name, size = self.one(*names), self.one(*self.pool)
        if shape:
            inner, axis = self.one(
                ((*shape, size), 1), ((*shape, size), -1), ((size, *shape), 0), ((size, *shape), -2)
            )
            return f"{name}({self.grow(scope, inner, depth)}, axis={axis})"
        return f"{name}({self.grow(scope, self.one((size,), (self.one(*self.pool), size)), depth)})"

    def _dot(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        size = self.one(*self.pool)
        return f"({self.grow(scope, (size,), depth)} @ {self.grow(scope, (size,), depth)})"

    def _matvec(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        size = self.one(*self.pool)
        shapes = self.one(((*shape, size), (size,)), ((size,), (size, *shape)))
        return f"({self.grow(scope, shapes[0], depth)} @ {self.grow(scope, shapes[1], depth)})"

    def _matmul(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        size = self.one(*self.pool)
        return f"({self.grow(scope, (shape[0], size), depth)} @ {self.grow(scope, (size, shape[1]), depth)})"

    def _outer(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        return f"outer({self.grow(scope, shape[:1], depth)}, {self.grow(scope, shape[1:], depth)})"

    def _transpose(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        return f"{self.grow(scope, shape[::-1], depth)}.T"

    def _expand(self, scope: dict[str, Shape], shape: Shape, depth: int) -> str:
        places = [k for k, size in enumerate(shape) if size == 1]
        axis = self.one(*places)
        inner = self.grow(scope, tuple(s for k, s in enumerate(shape) if k != axis), depth)
        return f"{inner}[{':, None' if axis else 'None, :' if len(shape) == 2 else 'None'}]"


def _uses(text: str, names: Any) -> bool:
    return bool(set(re.findall(r"\w+", text)) & set(names))


class _Writer:
    """One kernel, line by line."""

    def __init__(self, data: bytes, largest: int, guarded: bool) -> None:
        self.grower = _Grower(data, [n for n in (2, 3, 1, 4, 5, 9) if n <= largest], guarded)
        self.one, self.sizes = self.grower.one, self.grower.sizes
        self.head: list[str] = []
        self.lines: list[str] = []
        self.run: dict[str, Shape] = {}
        self.model: dict[str, Shape] = {}
        self.tuple: dict[str, Shape] = {}
        self.merged: dict[str, Shape] = {}

    def _declared(self, name: str, kind: str, shape: Shape) -> None:
        names = {size: d for d, size in self.sizes.items()}
        dims = [names[s] if s in names and self.one(True, False) else str(s) for s in shape]
        self.head.append(f"{name}: {kind}" + f"[{', '.join(dims)}]" * bool(dims))

    def parameters(self) -> None:
        for k in range(self.one(1, 2)):
            self.tuple[f"x{k}"] = self.grower.shape()
            self._declared(f"x{k}", "input", self.tuple[f"x{k}"])
        if self.one(True, False):
            self.tuple["y"] = self.grower.shape(self.one(0, 0, 1))
            self._declared("y", "output", self.tuple["y"])
        for k in range(self.one(1, 2, 3)):
            self.model[f"w{k}"] = self.grower.shape()
            self._declared(f"w{k}", "model", self.model[f"w{k}"])
        self.updated = dict(self.model)
        for k in range(self.one(0, 1, 2)):
            self.run[f"r{k}"] = ()
            self.head.append(f"r{k}: meta = {self.grower.number()}")

    @property
    def of_tuple(self) -> dict[str, Shape]:
        return self.tuple | self.model | self.run

    @property
    def of_batch(self) -> dict[str, Shape]:
        return self.merged | self.model | self.run

    def value(self, name: str, scope: dict[str, Shape], depth: int) -> None:
        """Write a line that names a value, which is of the region of what it uses."""
        self.grower.begin()
        shape = self.grower.shape()
        text = self.grower.grow(scope, shape, depth)
        regions = (self.merged, self.tuple, self.model, self.run)
        kept = next((names for names in regions if _uses(text, names)), None)
        if kept is not None:
            self.lines.append(f"{name} = {text}")
            kept[name] = shape

    def from_tuple(self, shape: Shape) -> str:
        """Return an expression that uses an input or output."""
        text = self.grower.grow(self.of_tuple, shape, 2)
        if not _uses(text, self.tuple):
            name, has = next(iter(self.tuple.items()))
            text = f"({f'sum({name})' if has else name} + {text})"
        return text

    def merges(self) -> None:
        self.count = count = self.one("", ", 1", ", 2", ", 3", ", 4", ", 4", ", 6", ", 8", ", 16")
        for k in range(self.one(1, 2, 3)):
            self.grower.begin()
            shape = self.grower.shape()
            text = self.from_tuple(shape)
            form = self.one("merge({}{}{})", "merge({}{}{})", "mean({}{})")
            op = self.one("", "", ', op="max"', ', op="min"', ', op="*"')
            self.lines.append(f"m{k} = " + form.format(text, count, op))
            self.merged[f"m{k}"] = shape
        if self.one(False, False, True):
            self.lines.append(f"many = merge(1{count})")
            self.merged["many"] = ()

    def score(self, depth: int) -> str:
        """Return a line with a score, which no label reaches."""
        labels = {"y"}
        for line in self.lines:
            name, _, text = line.partition(" = ")
            if _uses(text, labels):
                labels.add(name)
        scope = {name: shape for name, shape in self.of_tuple.items() if name not in labels}
        self.grower.begin()
        text = self.grower.grow(scope, (), depth)
        if not _uses(text, [name for name in self.tuple if name in scope]):
            has = "x0" if self.tuple["x0"] == () else "sum(x0)"
            text = f"({has} + {text})"
        return f"score s = {text}"

    def text(self, depth: int) -> str:
        self.parameters()
        before, merges, after = (
            self.one(0, 1, 2, 3),
            self.one(True, True, True, False),
            self.one(0, 1, 2),
        )
        ends, epochs = self.one(False, True), self.one(1, 2, 3)
        starts = [
            self.one("", "", "uniform(-1, 1, seed=1)", "uniform(-2, 2, seed=3)", "0.5")
            for _ in self.updated
        ]
        for k in range(before):
            scopes = self.run, self.model | self.run, self.of_tuple, self.of_tuple
            self.value(f"t{k}", scopes[k], depth - 1)
        if merges:
            self.merges()
            for k in range(after):
                self.value(f"b{k}", self.of_batch, depth - 1)
        scope = self.of_batch if merges else self.of_tuple
        for name, shape in self.updated.items():
            self.grower.begin()
            text = self.grower.grow(scope, shape, depth)
            self.lines.append(f"{name} <- {self.one('{}', f'{name} - 0.125 * {{}}').format(text)}")
        self.grower.begin()
        text = self.grower.grow(self.of_batch, (), depth)
        if ends and _uses(text, self.merged | self.model):
            sign, number = self.one(">", "<="), self.grower.number()
            if merges and self.one(False, False, True):  # a merged value that no model uses
                self.grower.begin()
                self.lines.append(f"u = merge({self.from_tuple(())}{self.count})")
                text = "u"
            self.lines.append(f"until {text} {sign} {number}")
        self.lines.append(f"epochs {epochs}")
        self.lines += [
            f"init {n} = {start}" for n, start in zip(self.updated, starts, strict=True) if start
        ]
        return "\n  ".join([f"kernel f({', '.join(self.head)})", *self.lines]) + "\n"


def _case(
    data: bytes,
    formats: tuple[str, ...],
    rows: int,
    largest: int,
    depth: int,
    scored: bool = False,
    writes: type[_Writer] = _Writer,
    makes: type[Case] = Case,
) -> Case:
    writer = writes(data, largest, formats[-1] in FLOATS)
    one = writer.one
    text = writer.text(depth)
    if scored:
        text = text.replace("\n  epochs", f"\n  {writer.score(depth)}\n  epochs")
    writer.grower.begin()
    found = re.search(r"(?:merge|mean)\(.*, (\d+)[,)]|\n  batch (\d+)", text)
    count = int(found[1] or found[2]) if found else 0 if "merge(" in text or "mean(" in text else 1
    threads = one(1, 1, 2, 4, 8)
    ports = one(*[n for n in (1, 1, 2, 4) if threads % n == 0 and (n == 1 or count % threads == 0)])
    return makes(
        text,
        tuple((d, size) for d, size in writer.sizes.items() if _uses(text.partition("\n")[0], d)),
        one(*formats),
        one(*range(rows + 1)),
        one(*range(100)),
        one(*makes.LANES),
        threads,
        ports,
        tuple(n for n in writer.tuple if n[0] in "xy" and one(False, False, True)),
        one(16, 8, 4),
    )


def cases(
    formats: tuple[str, ...],
    rows: int = 24,
    largest: int = 12,
    depth: int = 3,
    scored: bool = False,
) -> st.SearchStrategy[Case]:
    """Return a strategy for cases. Parameters: `rows`: at most; `largest`: dimension; `depth`: of expressions; `scored`: with a score `s`."""
    data = st.binary(min_size=_PIECE * _PIECES, max_size=_PIECE * _PIECES)
    return data.map(lambda data: _case(data, formats, rows, largest, depth, scored))


def case(
    random: Random,
    formats: tuple[str, ...],
    writes: type[_Writer] = _Writer,
    makes: type[Case] = Case,
) -> Case:
    """Return a small case that Hypothesis has no part in: the same in each of its versions."""
    return _case(random.randbytes(_PIECE * _PIECES), formats, 16, 6, 2, False, writes, makes)
