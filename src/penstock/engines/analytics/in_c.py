"""A kernel in C++, made from its graph: what a CPU can do with the same updates, as a peer to be measured against.

Rows are float32 or float64, one after the other, the kernel's inputs and outputs side by side in each. A batch is split over
threads, which merge their parts at its end. A value that one other value uses is computed where it is used; sums have partial sums side by
side, which g++ makes vectors of. Nothing of the hardware is in it; `dsl.analytics.interp` computes the same.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.analytics.interp import Training, constants
from penstock.dsl.analytics.overrides import initial_value
from penstock.dsl.core.graph import LEAVES, Graph, Node, Region
from penstock.dsl.core.operations import REDUCTIONS
from penstock.sim.native.toolchain import NATIVE, build_text

__all__ = ["InC", "source"]

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
_HEAD = """\
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

typedef {real} T;

struct Add {{ static constexpr T none = 0; static T of(T a, T b) {{ return a + b; }} }};
struct Mul {{ static constexpr T none = 1; static T of(T a, T b) {{ return a * b; }} }};
struct Max {{
    static constexpr T none = -std::numeric_limits<T>::infinity();
    static T of(T a, T b) {{ return b > a || b != b ? b : a; }}
}};
struct Min {{
    static constexpr T none = std::numeric_limits<T>::infinity();
    static T of(T a, T b) {{ return b < a || b != b ? b : a; }}
}};
static inline T sigmoid(T v) {{ T small = std::exp(-std::abs(v)); return (v >= 0 ? 1 : small) / (1 + small); }}
static inline T gaussian(T v) {{ return std::exp(-v * v); }}
template <class Op, long N, class Value> static inline T fold(Value value) {{
    constexpr long LANES = 16;
    T part[LANES];
    for (long l = 0; l < LANES; l++) part[l] = Op::none;
    long n = 0;
    for (; n + LANES <= N; n += LANES)
        for (long l = 0; l < LANES; l++) part[l] = Op::of(part[l], value(n + l));
    for (long l = 0; n < N; n++, l++) part[l] = Op::of(part[l], value(n));
    for (long step = LANES / 2; step; step /= 2)
        for (long l = 0; l < step; l++) part[l] = Op::of(part[l], part[l + step]);
    return part[0];
}}
struct Barrier {{
    std::atomic<int> waiting{{0}}, round{{0}};
    int count;
    explicit Barrier(int n) : count(n) {{}}
    void wait() {{
        const int now = round;
        if (++waiting == count) {{ waiting = 0; ++round; return; }}
        for (int spins = 0; round == now;) if (++spins > 1000) std::this_thread::yield();
    }}
}};
"""
_TAIL = """
extern "C" __attribute__((visibility("default")))
long penstock_train(const T* fixed, T* models, const T* rows, long count, long epochs, int threads, int* converged) {{
    const long batch = {batch} ? {batch} : count;
    std::vector<T*> scratch(threads);
    for (T*& each : scratch) each = static_cast<T*>(std::aligned_alloc(64, {scratch} * sizeof(T)));
    std::vector<T> old(models, models + {models}), next(old);
    Barrier barrier(threads);
    std::atomic<bool> over{{false}};
    long done = 0;
    auto work = [&](int t) {{
        for (long epoch = 0; epoch < epochs && !over; epoch++) {{
            for (long first = 0; first < count; first += batch) {{
                const long size = count - first < batch ? count - first : batch;
                slice(fixed, old.data(), scratch[t], rows, first + size * t / threads, first + size * (t + 1) / threads);
                if (threads > 1) barrier.wait();
                if (t == 0) {{
                    for (int k = 1; k < threads; k++) combine(scratch[0], scratch[k]);
                    const T* row = rows + (first + size - 1) * {width};
                    finish(fixed, old.data(), scratch[0], row, next.data());
                    if (first + size == count && holds(fixed, old.data(), scratch[0], row)) over = true;
                    old.swap(next);
                }}
                if (threads > 1) barrier.wait();
            }}
            if (t == 0) done++;
        }}
    }};
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, t);
    work(0);
    for (std::thread& each : others) each.join();
    std::memcpy(models, old.data(), {models} * sizeof(T));
    for (T* each : scratch) std::free(each);
    *converged = over;
    return done;
}}
"""


class _Writer:
    """The text of one kernel. `places`: of nodes that are stored, an array and an offset."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.merges = [k for k, n in enumerate(graph.nodes) if n.op == "merge"]
        self.places: dict[int, str] = {}
        self.offsets = {"fixed": 0, "models": 0, "row": 0, "scratch": 0}
        self.roots = {*graph.returns, *([] if graph.until is None else [graph.until])}
        uses = Counter(j for n in self.nodes for j in n.inputs)
        users: dict[int, list[Node]] = {k: [] for k in range(len(self.nodes))}
        for node in self.nodes:
            for j in node.inputs:
                users[j].append(node)
        for variable in graph.variables.values():
            kind = {"meta": "fixed", "model": "models"}.get(variable.kind, "row")
            self._place(variable.node, kind, 1)
        for k, node in enumerate(self.nodes):
            if node.op in LEAVES or node.region is Region.RUN:
                if k not in self.places:
                    self._place(k, "fixed", 1)
            elif self._stored(k, node, uses[k], users[k]):
                self._place(k, "scratch", 16)

    def _place(self, k: int, where: str, align: int) -> None:
        self.places[k] = f"{where} + {self.offsets[where]}"
        self.offsets[where] += -(-math.prod(self.nodes[k].shape) // align) * align

    def _stored(self, k: int, node: Node, uses: int, users: Sequence[Node]) -> bool:
        if node.op in _VIEWS:  # costs nothing, unless a product of two
            return k in self.roots or any(user.region is not node.region for user in users)
        if k in self.roots or uses != 1 or node.op not in _EACH:
            return True
        user = users[0]
        region = Region.TUPLE if user.op == "merge" else user.region
        again = user.op not in REDUCTIONS and math.prod(user.shape) != math.prod(node.shape)
        return region is not node.region or again or user.op in (*_VIEWS, "matmul")

    def value(self, k: int, at: Sequence[str]) -> str:
        """Return the element of a node at these places of something that it broadcasts to."""
        node = self.nodes[k]
        shape = node.shape
        here = [
            "0" if n == 1 else i for n, i in zip(shape, at[len(at) - len(shape) :], strict=True)
        ]
        if k in self.places:
            flat = (
                here[0]
                if len(here) == 1
                else f"{here[0]} * {shape[1]} + {here[1]}"
                if here
                else "0"
            )
            return f"v{k}[{flat}]"
        if node.op == "expand":
            axis = node.attrs["axis"] % len(shape)
            return self.value(node.inputs[0], [*here[:axis], *here[axis + 1 :]])
        if node.op == "transpose":
            return self.value(node.inputs[0], here[::-1])
        if node.op == "outer":
            a, b = node.inputs
            return f"({self.value(a, here[:1])} * {self.value(b, here[1:])})"
        return _EACH[node.op].format(*(self.value(j, here) for j in node.inputs))

    def loops(self, shape: Sequence[int], body: str) -> str:
        """Return a body for every `a` (and `b`) of a shape."""
        heads = [
            f"for (long {i} = 0; {i} < {n}; {i}++) " for i, n in zip("ab", shape, strict=False)
        ]
        return "".join(heads) + body

    def computed(self, k: int) -> str:
        """Return the statements for a node that is stored."""
        node = self.nodes[k]
        if node.op in REDUCTIONS:
            return self._reduction(k, node)
        if node.op == "matmul":
            return self._matmul(k, node)
        at = "ab"[: len(node.shape)]
        kept, self.places = self.places, {j: p for j, p in self.places.items() if j != k}
        text = self.value(k, at)
        self.places = kept
        return self.loops(node.shape, f"{self.value(k, at)} = {text};")

    def _reduction(self, k: int, node: Node) -> str:
        operation, (j,) = REDUCTIONS[node.op], node.inputs
        shape, axis = self.nodes[j].shape, node.attrs.get("axis")
        op = _FOLDS[operation.unit]
        square = "T v = {}; return v * v;" if operation.before else "return {};"
        root = f"for (long a = 0; a < {math.prod(node.shape)}; a++) v{k}[a] = std::sqrt(v{k}[a]);"
        after = root if operation.after else ""
        if len(shape) == 2 and axis is not None and axis % 2 == 0:
            each = self.loops(
                shape,
                f"{{ T v = {self.value(j, 'ab')}; v{k}[b] = {op}::of(v{k}[b], {'v * v' if operation.before else 'v'}); }}",
            )
            return f"for (long b = 0; b < {shape[1]}; b++) v{k}[b] = {op}::none; {each} {after}"
        inner = square.format(self.value(j, "ab"[: len(shape)]))
        if len(shape) < 2:
            size = shape[0] if shape else 1
            return f"v{k}[0] = fold<{op}, {size}>([&](long a) {{ (void)a; {inner} }}); {after}"
        row = f"fold<{op}, {shape[1]}>([&](long b) {{ {inner} }})"
        if axis is None:
            return f"v{k}[0] = fold<{op}, {shape[0]}>([&](long a) {{ return {row}; }}); {after}"
        return self.loops(shape[:1], f"v{k}[a] = {row};") + after

    def _matmul(self, k: int, node: Node) -> str:
        left, right = node.inputs
        rows, columns = self.nodes[left].shape[:-1], self.nodes[right].shape[1:]
        size = self.nodes[left].shape[-1]
        at = [*("a" if rows else ""), "l"]
        target = f"v{k}[{'a' if rows else '0'}]"
        if not columns:
            product = f"{self.value(left, at)} * {self.value(right, ['l'])}"
            return self.loops(
                rows, f"{target} = fold<Add, {size}>([&](long l) {{ return {product}; }});"
            )
        base = f"a * {columns[0]} + b" if rows else "b"
        start = f"for (long b = 0; b < {columns[0]}; b++) "
        product = f"{self.value(left, at)} * {self.value(right, ['l', 'b'])}"
        add = f"for (long l = 0; l < {size}; l++) {start}v{k}[{base}] += {product};"
        return self.loops(rows, f"{{ {start}v{k}[{base}] = 0; {add} }}")

    def region(self, region: Region) -> str:
        chosen = [
            k
            for k, n in enumerate(self.nodes)
            if n.region is region and n.op not in (*LEAVES, "merge")
        ]
        return "\n".join(f"        {self.computed(k)}" for k in chosen if k in self.places)

    def _pointers(self, *kinds: str) -> str:
        lines = []
        for k, place in self.places.items():
            kind = place.split()[0]
            if kind in kinds:
                const = "" if kind == "scratch" else "const "
                lines.append(f"    [[maybe_unused]] {const}T* __restrict v{k} = {place};")
        return "\n".join(lines)

    def text(self, real: str) -> str:
        """Return the whole program."""
        most = "fixed", "models", "scratch"
        start, take, join = [], [], []
        for k in self.merges:
            node = self.nodes[k]
            op, size = _FOLDS[node.attrs["op"]], math.prod(node.shape)
            counts = node.attrs.get("counts")
            start.append(f"    for (long a = 0; a < {size}; a++) v{k}[a] = {op}::none;")
            at = "ab"[: len(node.shape)]
            part = "1" if counts else self.value(node.inputs[0], at)
            own = self.value(k, at)
            take.append(f"        {self.loops(node.shape, f'{own} = {op}::of({own}, {part});')}")
            join.append(
                f"    for (long a = 0; a < {size}; a++) into[{self.places[k].split()[-1]} + a] = {op}::of("
                f"into[{self.places[k].split()[-1]} + a], from[{self.places[k].split()[-1]} + a]);"
            )
        returned, offset = [], 0
        for k in self.graph.returns:
            shape = self.nodes[k].shape
            flat = {0: "0", 1: "a", 2: f"a * {shape[-1] if shape else 1} + b"}[len(shape)]
            returned.append(
                self.loops(shape, f"next[{offset} + {flat}] = {self.value(k, 'ab'[: len(shape)])};")
            )
            offset += math.prod(shape)
        given = "const T* fixed, const T* models, T* scratch"
        holds = (
            "return false;"
            if self.graph.until is None
            else f"return {self.value(self.graph.until, '')} != 0;"
        )
        return "\n".join(
            [
                _HEAD.format(real=real),
                f"static void slice({given}, const T* rows, long first, long end) {{",
                self._pointers(*most),
                self.region(Region.MODEL),
                *start,
                f"    for (const T* row = rows + first * {self.offsets['row']}; first < end; first++, row += {self.offsets['row']}) {{",
                self._pointers("row"),
                self.region(Region.TUPLE),
                *take,
                "    }\n}",
                "static void combine([[maybe_unused]] T* into, [[maybe_unused]] const T* from) {",
                *join,
                f"}}\nstatic void finish({given}, const T* row, T* next) {{",
                self._pointers(*most, "row"),
                self.region(Region.MERGED),
                *returned,
                f"}}\nstatic bool holds({given}, const T* row) {{",
                self._pointers(*most, "row"),
                self.region(Region.CONVERGENCE),
                f"    {holds}\n}}",
                _TAIL.format(
                    batch=self.graph.merge_count,
                    scratch=max(16, self.offsets["scratch"]),
                    models=self.offsets["models"],
                    width=self.offsets["row"],
                ),
            ]
        )


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
        fixed = np.zeros(writer.offsets["fixed"], self.dtype)
        for k, value in constants(graph).items():
            start = int(writer.places[k].split()[-1])
            fixed[start : start + value.size] = value.ravel()
        self._fixed = fixed
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
        found = {
            v.name: part.reshape(v.shape)
            for v, part in zip(variables, np.split(models, ends), strict=True)
        }
        return Training(found, int(done), bool(over))
