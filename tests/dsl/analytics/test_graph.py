"""The graph that both front ends build: equal for equal kernels, folded, with regions and shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.analytics.lower import lower
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.graph import Graph, Region, Uniform
from penstock.dsl.core.load import from_text, load_kernel

EXAMPLES = Path(__file__).parents[3] / "examples"

TEXTS = {
    "linear": (EXAMPLES / "linear.psk").read_text(),
    "logistic": (EXAMPLES / "logistic.psk").read_text(),
    "ridge": """
kernel ridge(x: input[d], y: output, w: model[d], b: model, rate: meta = 0.1, penalty: meta = 0.001)
  error = sum(w * x) + b - y
  step = mean(error * x, 16) + penalty * w
  until norm(step) < 0.0001
  w <- w - rate * step
  b <- b - rate * mean(error, 16)
  epochs 30
""",
}
SIZES = {"d": 7}


def plain(graph: Graph) -> Any:
    """A graph without its spans."""
    nodes = [(n.op, n.inputs, n.shape, n.region, n.attrs) for n in graph.nodes]
    variables = [
        (v.name, v.kind, v.dims, v.shape, v.node, v.value, v.init) for v in graph.variables.values()
    ]
    return graph.name, nodes, variables, graph.returns, graph.until, graph.epochs, graph.merge_count


@pytest.mark.parametrize("name", TEXTS)
def test_front_ends_agree(name: str) -> None:
    python = load_kernel(EXAMPLES / f"{name}.py")
    text = from_text(TEXTS[name], f"{name}.psk")
    sizes = {dim: SIZES[dim] for dim in python.dim_names}
    assert plain(python.trace(sizes)) == plain(text.trace(sizes))
    assert python.warnings == []
    assert python.check() == []
    assert text.check() == []


def trace(text: str, **sizes: int) -> Graph:
    return from_text(text).trace(sizes)


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op not in ("input", "output", "model", "meta", "const")]


def test_nodes_and_regions() -> None:
    graph = trace(TEXTS["ridge"], d=4)
    by_op = {node.op: node for node in graph.nodes}
    assert [n.region for n in graph.nodes if n.op == "merge"] == 3 * [Region.MERGED]
    assert by_op["norm"].region is Region.CONVERGENCE
    assert by_op["lt"].region is Region.CONVERGENCE
    assert by_op["sum"].region is Region.TUPLE
    penalty = graph.variables["penalty"].node
    decay = next(n for n in graph.nodes if n.op == "mul" and penalty in n.inputs)
    assert decay.region is Region.MODEL
    assert graph.merge_count == 16
    assert all(i < index for index, n in enumerate(graph.nodes) for i in n.inputs)
    assert all(type(size) is int for n in graph.nodes for size in n.shape)


def test_what_until_alone_needs() -> None:
    graph = trace(
        "kernel f(x: input[d], w: model[d])\n s = merge(x * w)\n w <- w - s\n until norm(w) + sum(2 * s) < 3",
        d=2,
    )
    assert graph.merge_count == 0
    regions = [(n.op, n.region) for n in graph.nodes if n.op in ("norm", "sum", "add", "lt", "sub")]
    c = Region.CONVERGENCE
    assert regions == [("sub", Region.MERGED), ("norm", c), ("sum", c), ("add", c), ("lt", c)]


def test_constants_are_folded_and_shared() -> None:
    graph = trace(
        "kernel f(x: input[d], w: model[d])\n a = exp(0) + 2 * 3\n w <- w - a * x - 7 * x", d=2
    )
    assert ops(graph) == ["mul", "sub", "sub"]
    assert [n.attrs["value"] for n in graph.nodes if n.op == "const"] == [7.0]


def test_metas_stay() -> None:
    graph = trace(
        "kernel f(x: input[d], w: model[d], rate: meta = 0.5)\n w <- w - rate * 2 * x", d=2
    )
    assert ops(graph) == ["mul", "mul", "sub"]
    assert graph.nodes[graph.variables["rate"].node].region is Region.RUN


def test_what_nothing_needs_is_left_out() -> None:
    kernel = from_text("kernel f(x: input[d], z: input, w: model[d])\n e = exp(x)\n w <- w - x")
    assert ops(kernel.trace(d=2)) == ["sub"]
    assert [w.message for w in kernel.warnings] == ["the input z is not used"]
    assert str(kernel.warnings[0].span) == "<kernel>:1:23"


def test_arrays_and_numpy_numbers_from_python() -> None:
    @ps.kernel
    def f(x: ps.Input["d"], w: ps.Model["d"]):
        scaled = np.array([1.0, 2.0]) * x * np.float32(3) + [1, 2]
        return np.float64(2) * w - (np.arange(4).reshape(2, 2) @ scaled) / np.int64(2) + True

    graph = f.trace(d=2)
    values = [np.asarray(n.attrs["value"]).tolist() for n in graph.nodes if n.op == "const"]
    assert values == [[1, 2], 3, 2, [[0, 1], [2, 3]], 1]
    assert ops(graph) == ["mul", "mul", "add", "mul", "matmul", "div", "sub", "add"]


#: array constants as text, and the same in Python
LISTS = {
    "vector": ("w - x * [1, 2.5, -3]", lambda x, w: w - x * [1, 2.5, -3]),
    "first": ("[1, 2, 3] * x - w", lambda x, w: [1, 2, 3] * x - w),
    "matrix": (
        "w - [[1, 0, 0], [0, 2, 0], [0, 0, 3]] @ x",
        lambda x, w: w - [[1, 0, 0], [0, 2, 0], [0, 0, 3]] @ x,
    ),
    "argument": ("where([1, 0, 1], w, x)", lambda x, w: ps.where([1, 0, 1], w, x)),
    "computed": ("w - x * [1 / 4, 2 * 3, (1)]", lambda x, w: w - x * [1 / 4, 2 * 3, (1)]),
    "named": ("w - x * scale", lambda x, w: w - x * np.array([4, 5, 6])),
    "among themselves": (
        "w - x * ([1, 2, 3] + [3, 2, 1])",
        lambda x, w: w - x * (np.array([1, 2, 3]) + np.array([3, 2, 1])),
    ),
    "negated": ("w - x * -[1, 2, 3]", lambda x, w: w - x * -np.array([1, 2, 3])),
    "column": (
        "w - sum([1, 2][:, None] * x, axis=0)",
        lambda x, w: w - ps.sum(np.array([1, 2])[:, None] * x, axis=0),
    ),
    "transposed": ("w - [[1], [2], [3]].T @ [[1], [1], [1]] * x @ [1, 1, 1]", None),
    "reduced": ("w - x * norm([3, 4])", lambda x, w: w - x * ps.norm([3, 4])),
    "folded lines": ("w - x * [1,\n   2,\n   3,\n ]", lambda x, w: w - x * [1, 2, 3]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_constants_in_both_front_ends(name: str) -> None:
    text, body = LISTS[name]
    graph = trace(f"kernel f(x: input[3], w: model[3])\n scale = [4, 5, 6]\n w <- {text}\n")
    assert graph.nodes[graph.returns[0]].shape == (3,)
    if body is not None:

        @ps.kernel
        def f(x: ps.Input[3], w: ps.Model[3]):
            return body(x, w)

        other = f.trace()
        assert ops(graph) == ops(other)
        pairs = [
            [np.asarray(n.attrs["value"]).tolist() for n in g.nodes if n.op == "const"]
            for g in (graph, other)
        ]
        assert pairs[0] == pairs[1]


def test_locals_change_in_place_by_every_operator() -> None:
    @ps.kernel
    def f(x: ps.Input["d"], W: ps.Model["d", "d"]):
        v = x
        v += x
        v -= x
        v *= 3
        v /= 2
        v **= 2
        m = W
        m @= W
        return m + v

    assert ops(f.trace(d=2)) == ["add", "sub", "mul", "div", "mul", "matmul", "add"]


def test_closures_helpers_and_loops_are_traced() -> None:
    steps = 3

    def halve(v: Any) -> Any:
        return v / 2

    @ps.kernel
    def f(x: ps.Input["d"], w: ps.Model["d"]):
        total = x
        for _ in range(steps):
            total += halve(total)
        return w - total

    assert ops(f.trace(d=2)) == ["div", "add"] * 3 + ["sub"]


def test_a_model_under_another_name_may_be_added_to() -> None:
    @ps.kernel
    def f(x: ps.Input["d"], w: ps.Model["d"]):
        new = w
        new -= x
        return new

    assert ops(f.trace(d=2)) == ["sub"]


def test_kernel_without_source() -> None:
    names: dict[str, Any] = {"ps": ps}
    exec("@ps.kernel\ndef f(x: ps.Input['d'], w: ps.Model['d']):\n    return w - x\n", names)
    assert ops(names["f"].trace(d=2)) == ["sub"]
    exec("@ps.kernel\ndef f(x: ps.Input['d'], w: ps.Model['n']):\n    return w - x\n", names)
    with pytest.raises(
        KernelError, match=r"^error\[E301\]: the operands of - have shapes that do not fit together"
    ):
        names["f"].trace(d=2, n=3)


def test_inits_and_epochs() -> None:
    @ps.kernel(epochs=3, init={"w": np.ones(2), "b": ps.uniform(-1, 1, seed=4)})
    def f(x: ps.Input["d"], w: ps.Model["d"], b: ps.Model):
        return w - x, b

    graph = f.trace(d=2)
    assert graph.epochs == 3
    assert graph.variables["w"].init.tolist() == [1, 1]
    assert graph.variables["b"].init == Uniform(-1, 1, 4)


def test_sizes() -> None:
    kernel = from_text("kernel f(x: input[d], w: model[d])\n w <- w - x", "f.psk")
    assert kernel.dim_names == ["d"]
    for sizes, message in (
        ({}, "error[E505]: the size of dimension d is not known"),
        ({"e": 3}, "error[E504]: the kernel f has no dimension e"),
        ({"d": 0}, "error[E504]: dimension d cannot have the size 0"),
        ({"d": 1 << 21}, "error[E504]: dimension d cannot have the size 2097152"),
    ):
        with pytest.raises(KernelError) as caught:
            kernel.trace(sizes)
        assert str(caught.value).startswith(message + "\n --> f.psk:1:")


def test_different_names_may_have_the_same_size() -> None:
    text = "kernel f(x: input[d], w: model[n])\n w <- w - x"
    assert trace(text, d=3, n=3).nodes[-1].shape == (3,)
    with pytest.raises(KernelError, match="E301"):
        from_text(text).check()
    assert from_text(text).check({"d": 3, "n": 3}) == []


def test_huge_expressions_do_not_overflow_the_stack() -> None:
    terms = " + ".join(["x"] * 15_000)
    assert len(trace(f"kernel f(x: input, w: model)\n w <- w - ({terms})").nodes) == 15_002
    deep = "(" * 20_000 + "x" + ")" * 20_000
    assert ops(trace(f"kernel f(x: input, w: model)\n w <- w - {deep}")) == ["sub"]
    minus = "-" * 20_001 + "x"
    with pytest.raises(KernelError, match="E107"):
        trace(f"kernel f(x: input, w: model)\n w <- w - ({minus})")


def test_a_chain_too_long_to_plan_is_refused() -> None:
    """Following it would overflow C's stack (signal 11) below the number of operations that a kernel may have."""
    terms = " + ".join(["x"] * 18_000)
    graph = trace(f"kernel f(x: input, w: model)\n w <- w - ({terms})")
    with pytest.raises(KernelError, match=r"E107.*has 18002 operations; hardware is") as refused:
        lower(graph, 1, serial_limit=1)
    hint = refused.value.diagnostic.hint
    assert hint and hint.endswith("a Python loop is unrolled while the kernel is traced")


def test_what_is_too_large_to_plan_is_refused_at_once() -> None:
    for text in ("-" * 3_000 + "x", "exp(" * 1_001 + "x" + ")" * 1_001):
        graph = trace(f"kernel f(x: input, w: model)\n w <- w - {text}")
        with pytest.raises(KernelError, match=r"E107.*hardware is planned for at most 1000"):
            lower(graph, 1, serial_limit=1)


def test_names_may_look_like_keywords() -> None:
    text = "kernel kernel(input: input, model: model, kernel: meta = 1)\n output = input * kernel\n model <- model - output"
    assert ops(trace(text)) == ["mul", "sub"]


def test_lines_continue_in_brackets() -> None:
    header = "\n# a kernel\nkernel f(x: input[d],  # the features\n  w: model[d])\r\n\n"
    text = header + "  w <- merge(x,\n     # how many\n     4)\n  epochs 2\n\n"
    graph = trace(text, d=3)
    assert (graph.merge_count, graph.epochs) == (4, 2)


def test_comparison_with_a_negative_number_is_no_arrow() -> None:
    assert ops(trace("kernel f(x: input, w: model)\n w <- w * (x <-1)")) == ["lt", "mul"]
