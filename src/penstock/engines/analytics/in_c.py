"""A kernel in C++, made from its graph: what a CPU can do with the same updates, as a peer to be measured against.

Rows are float32 or float64, one after the other, the kernel's inputs and outputs side by side in each. A batch is split over
threads, which merge their parts at its end. A value that one other value uses is computed where it is used; sums have partial sums side by
side, which g++ makes vectors of. Nothing of the hardware is in it; `dsl.analytics.interp` computes the same.
"""

import ctypes
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.analytics.interp import Training, constants
from penstock.dsl.analytics.overrides import initial_value
from penstock.dsl.core.graph import LEAVES, Graph, Node, Region
from penstock.dsl.core.operations import REDUCTIONS
from penstock.sim.native.toolchain import NATIVE, build_text

#: elementwise operations on `{0}`, `{1}`, `{2}`
_EACH = {
    **{name: f"({{0}} {sign} {{1}})" for name, sign in zip(("add", "sub", "mul", "div"), "+-*/", strict=True)},
    **{name: f"T({{0}} {sign} {{1}})" for name, sign in (("lt", "<"), ("gt", ">"), ("le", "<="), ("ge", ">="))},
    **{name: f"std::{name}({{0}})" for name in ("sqrt", "exp", "log", "tanh", "abs")},
    "neg": "(-{0})",
    "sigmoid": "sigmoid({0})",
    "gaussian": "gaussian({0})",
    "where": "({0} != 0 ? {1} : {2})",
}  # fmt: skip
_VIEWS = ("expand", "transpose", "outer")
_FOLDS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
#: what stands before and behind a kernel's functions
_SIZES = ("batch", "width", "models", "scratch")
_AROUND = Path(__file__).with_name("peer.cpp")


class _Writer:
    """The text of one kernel. All values are matrices; vectors are of one row. `places`: of nodes that are
    stored, the array and where they begin in it; `sizes`: of the arrays."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.shapes = [(1, 1, *n.shape)[-2:] for n in graph.nodes]
        self.merges = [k for k, n in enumerate(graph.nodes) if n.op == "merge"]
        self.roots = {*graph.returns, *([] if graph.until is None else [graph.until])}
        self.places: dict[int, tuple[str, int]] = {}
        self.sizes = {"fixed": 0, "models": 0, "row": 0, "scratch": 16}
        users: list[list[Node]] = [[] for _ in graph.nodes]
        for node in graph.nodes:
            for j in node.inputs:
                users[j].append(node)
        for variable in graph.variables.values():
            kind = {"meta": "fixed", "model": "models"}.get(variable.kind, "row")
            self._place(variable.node, kind, 1)
        for k, node in enumerate(graph.nodes):
            if node.op in LEAVES or node.region is Region.RUN:
                self._place(k, "fixed", 1)
            elif self._stored(k, node, users[k]):
                self._place(k, "scratch", 16)

    def _place(self, k: int, where: str, align: int) -> None:
        if k not in self.places:
            self.places[k] = where, self.sizes[where]
            self.sizes[where] += -(-math.prod(self.shapes[k]) // align) * align

    def _stored(self, k: int, node: Node, users: Sequence[Node]) -> bool:
        """Whether a value is computed once and kept, not where it is used."""
        if node.op in _VIEWS:  # costs nothing, or a product
            return k in self.roots or any(user.region is not node.region for user in users)
        if k in self.roots or len(users) != 1 or node.op not in _EACH:
            return True
        (user,) = users
        region = Region.TUPLE if user.op == "merge" else user.region
        again = user.op not in REDUCTIONS and math.prod(user.shape) != math.prod(node.shape)
        return region is not node.region or again or user.op in (*_VIEWS, "matmul")

    def value(self, k: int, a: str, b: str, kept: bool = True) -> str:
        """Return element (a, b) of a node, or of what it is broadcast to; not `kept`: as computed."""
        node, (rows, columns) = self.nodes[k], self.shapes[k]
        a, b = "0" if rows == 1 else a, "0" if columns == 1 else b
        if kept and k in self.places:
            return f"v{k}[{a} * {columns} + {b}]"
        if node.op == "expand":
            last = len(node.shape) == 2 and node.attrs["axis"] % 2 == 1
            return self.value(node.inputs[0], "0", a if last else b)
        if node.op == "transpose":
            return self.value(node.inputs[0], b, a)
        if node.op == "outer":
            return f"({self.value(node.inputs[0], '0', a)} * {self.value(node.inputs[1], '0', b)})"
        return _EACH[node.op].format(*(self.value(j, a, b) for j in node.inputs))

    def each(self, k: int, body: str) -> str:
        """Return a body for every element (a, b) of a node."""
        rows, columns = self.shapes[k]
        return (
            f"for (long a = 0; a < {rows}; a++) for (long b = 0; b < {columns}; b++) {{ {body} }}"
        )

    def computed(self, k: int) -> str:
        """Return the statements for a node that is stored."""
        node = self.nodes[k]
        if node.op in REDUCTIONS:
            return self._reduction(k, node)
        if node.op == "matmul":
            return self._matmul(k, node)
        return self.each(k, f"{self.value(k, 'a', 'b')} = {self.value(k, 'a', 'b', False)};")

    def _reduction(self, k: int, node: Node) -> str:
        operation, (j,) = REDUCTIONS[node.op], node.inputs
        (rows, columns), axis = self.shapes[j], node.attrs.get("axis")
        op, part = _FOLDS[operation.unit], "v * v" if operation.before else "v"
        value = f"T v = {self.value(j, 'a', 'b')};"
        row = f"fold<{op}, {columns}>([&]([[maybe_unused]] long b) {{ {value} return {part}; }})"
        if axis is None or len(self.nodes[j].shape) < 2:
            text = (
                f"v{k}[0] = fold<{op}, {rows}>([&]([[maybe_unused]] long a) {{ return {row}; }});"
            )
        elif axis % 2:
            text = f"for (long a = 0; a < {rows}; a++) v{k}[a] = {row};"
        else:
            add = self.each(j, f"{value} v{k}[b] = {op}::of(v{k}[b], {part});")
            text = f"for (long b = 0; b < {columns}; b++) v{k}[b] = {op}::none; {add}"
        size = math.prod(node.shape)
        root = f" for (long a = 0; a < {size}; a++) v{k}[a] = std::sqrt(v{k}[a]);"
        return text + root * bool(operation.after)

    def _matmul(self, k: int, node: Node) -> str:
        left, right = node.inputs
        rows, size = self.shapes[left]
        columns = 1 if len(self.nodes[right].shape) == 1 else self.shapes[right][1]
        place = ("0", "l") if len(self.nodes[right].shape) == 1 else ("l", "b")
        product = f"{self.value(left, 'a', 'l')} * {self.value(right, *place)}"
        if columns == 1:
            total = f"fold<Add, {size}>([&](long l) {{ [[maybe_unused]] long b = 0; return {product}; }})"
            return f"for (long a = 0; a < {rows}; a++) v{k}[a] = {total};"
        row = f"for (long b = 0; b < {columns}; b++) v{k}[a * {columns} + b]"
        add = f"for (long l = 0; l < {size}; l++) {row} += {product};"
        return f"for (long a = 0; a < {rows}; a++) {{ {row} = 0; {add} }}"

    def region(self, region: Region) -> list[str]:
        """Return the statements for the values of a region."""
        nodes = enumerate(self.nodes)
        chosen = [
            k for k, n in nodes if n.region is region and self.places.get(k, ("",))[0] == "scratch"
        ]
        return [self.computed(k) for k in chosen if self.nodes[k].op != "merge"]

    def pointers(self, *arrays: str) -> list[str]:
        """Return the declarations of the values in these arrays."""
        return [
            f"[[maybe_unused]] {'' if where == 'scratch' else 'const '}T* __restrict v{k} = {where} + {at};"
            for k, (where, at) in self.places.items()
            if where in arrays
        ]

    def text(self, real: str) -> str:
        """Return the whole program."""
        start, take, join = [], [], []
        returned, at = [], 0
        for k in self.merges:
            node, accumulator = self.nodes[k], self.value(k, "a", "b")
            op = f"{_FOLDS[node.attrs['op']]}::"
            part = "1" if node.attrs.get("counts") else self.value(node.inputs[0], "a", "b")
            other = accumulator.replace(f"v{k}", f"(from + {self.places[k][1]})")
            start.append(self.each(k, f"{accumulator} = {op}none;"))
            take.append(self.each(k, f"{accumulator} = {op}of({accumulator}, {part});"))
            join.append(self.each(k, f"{accumulator} = {op}of({accumulator}, {other});"))
        for k in self.graph.returns:
            index = f"{at} + a * {self.shapes[k][1]} + b"
            returned.append(self.each(k, f"next[{index}] = {self.value(k, 'a', 'b')};"))
            at += math.prod(self.shapes[k])
        until = self.graph.until
        params, width = "const T* fixed, const T* models, T* scratch", self.sizes["row"]
        shared = self.pointers("fixed", "models", "scratch")
        loop = (
            f"for (const T* row = rows + first * {width}; first < end; first++, row += {width}) {{"
        )
        bodies = {
            f"void slice({params}, const T* rows, long first, long end)": [
                *shared, *self.region(Region.MODEL), *start, loop, *self.pointers("row"),
                *self.region(Region.TUPLE), *take, "}",
            ],
            "void combine(T* scratch, const T* from)": [*self.pointers("scratch"), *join],
            f"void finish({params}, const T* row, T* next)": [
                *shared, *self.pointers("row"), *self.region(Region.MERGED), *returned,
            ],
            f"bool holds({params}, const T* row)": [
                *shared, *self.pointers("row"), *self.region(Region.CONVERGENCE),
                "return false;" if until is None else f"return {self.value(until, 'a', 'b')} != 0;",
            ],
        }  # fmt: skip
        functions = [f"static {head} {{\n{chr(10).join(body)}\n}}" for head, body in bodies.items()]
        sizes = {"batch": self.graph.merge_count, "width": width, **self.sizes}
        named = [f"constexpr long {name.upper()} = {sizes[name]};" for name in _SIZES]
        head, tail = _AROUND.read_text().split("// the kernel\n")
        return "\n".join([f"typedef {real} T;", *named, head, *functions, tail])


def source(graph: Graph, dtype: Any = np.float32) -> str:
    """Return a kernel's program. Raises KeyError with the name of an operation that has no C."""
    for node in graph.nodes:
        if node.op not in (*LEAVES, *_EACH, *REDUCTIONS, *_VIEWS, "matmul", "merge"):
            raise KeyError(node.op)
    return _Writer(graph).text("float" if np.dtype(dtype) == np.float32 else "double")


class InC:
    """A kernel compiled by g++ -O3 -march=native, once. Every meta must have a value.

    Raises KeyError as `source` does, BuildError without g++.
    """

    def __init__(self, graph: Graph, dtype: Any = np.float32) -> None:
        self.graph, self.dtype = graph, np.dtype(dtype)
        text = source(graph, dtype)
        writer = _Writer(graph)
        self._fixed = np.zeros(writer.sizes["fixed"], self.dtype)
        for k, value in constants(graph).items():
            start = writer.places[k][1]
            self._fixed[start : start + value.size] = value.ravel()
        self._train = ctypes.CDLL(str(build_text("peer", text, NATIVE))).penstock_train
        self._train.restype = ctypes.c_long
        pointer = np.ctypeslib.ndpointer(self.dtype, flags="C_CONTIGUOUS")
        self._train.argtypes = [pointer] * 3 + [ctypes.c_long] * 2 + [ctypes.c_int, ctypes.c_void_p]

    def rows(self, table: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return a table's inputs and outputs as it reads them: [rows, values]."""
        used = [v for v in self.graph.variables.values() if v.kind in ("input", "output")]
        parts = [np.asarray(table[v.name], self.dtype) for v in used]
        return np.ascontiguousarray(
            np.concatenate(
                [p.reshape(len(p), math.prod(v.shape)) for p, v in zip(parts, used, strict=True)], 1
            )
        )

    def run(self, rows: NDArray[Any], epochs: int | None = None, threads: int = 1) -> Training:
        """Train on rows; a kernel without a merge, whose updates follow each other, on one thread."""
        variables = self.graph.of_kind("model")
        models = np.concatenate([np.ravel(initial_value(v)).astype(self.dtype) for v in variables])
        threads = threads if self.graph.merge_count != 1 else 1
        over = ctypes.c_int(0)
        done = self._train(
            self._fixed, models, rows, len(rows),
            self.graph.epochs if epochs is None else epochs, threads, ctypes.byref(over),
        )  # fmt: skip
        ends = np.cumsum([math.prod(v.shape) for v in variables])[:-1]
        weights = {
            v.name: part.reshape(v.shape)
            for v, part in zip(variables, np.split(models, ends), strict=True)
        }
        return Training(weights, int(done), bool(over))
