"""What a run may set without touching the kernel: metas, starts of models, epochs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ...models.inputs import MEMORY, Input
from ..core.diagnostics import KernelError, Span, error
from ..core.dims import show
from ..core.graph import Graph, Uniform, Variable
from ..core.hints import closest
from .kernel import check_init_shape, checked_epochs, checked_init


def with_overrides(
    graph: Graph,
    metas: Mapping[str, Any] | None = None,
    init: Mapping[str, Any] | None = None,
    epochs: int | None = None,
) -> Graph:
    """Return the graph with other values for a run (a copy; the nodes are shared). Raises KernelError.

    * `metas`: values by name (`--set rate=0.05`); a text is read as a number.
    * `init`: models' starts by name (`--init w=FILE.npy`): a number, an array, Uniform, or the name of a `.npy` file.
    * `epochs`: passes over the table.

    Every meta must have a value in the end (E503).
    """
    variables = {name: replace(variable) for name, variable in graph.variables.items()}
    for name, value in (metas or {}).items():
        variable = _variable(graph, variables, name, "meta", "--set")
        variable.value = _number(graph, variable, value)
    for name, value in (init or {}).items():
        variable = _variable(graph, variables, name, "model", "--init")
        if isinstance(value, (str, Path)):
            value = _load(graph, variable, value)
        start = checked_init(name, value, variable.span, graph.source)
        check_init_shape(name, start, variable.shape, variable.span, graph.source)
        variable.init = start
    for variable in variables.values():
        if variable.kind == "meta" and variable.value is None:
            raise _error(
                graph,
                "E503",
                f"the meta {variable.name} has no value",
                variable.span,
                f"give it with --set {variable.name}=VALUE",
            )
    count = graph.epochs if epochs is None else checked_epochs(epochs, Span.whole("--epochs"))
    scoring = graph.scoring
    if scoring is not None:  # the same values there
        chosen = {n: replace(v, value=variables[n].value) for n, v in scoring.variables.items()}
        scoring = replace(scoring, variables=chosen)
    return replace(graph, variables=variables, epochs=count, scoring=scoring)


def initial_value(variable: Variable) -> np.ndarray:
    """Return a model's start as a float64 array of its shape; the same for the same `Uniform` on every machine."""
    if isinstance(variable.init, Uniform):
        generator = np.random.default_rng(variable.init.seed)
        return np.asarray(
            generator.uniform(variable.init.low, variable.init.high, variable.shape),
            dtype=np.float64,
        )
    return np.broadcast_to(np.asarray(variable.init, dtype=np.float64), variable.shape).copy()


def _variable(
    graph: Graph, variables: dict[str, Variable], name: str, kind: str, option: str
) -> Variable:
    known = [v.name for v in variables.values() if v.kind == kind]
    if name not in known:
        hint = closest(name, known) or (
            f"its {kind}s are {', '.join(known)}" if known else f"it has no {kind}"
        )
        what = f"{name} is not a {kind} of the kernel {graph.name}"
        raise error("E501", what, Span.whole(option), hint=hint)
    return variables[name]


def _number(graph: Graph, variable: Variable, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number) or isinstance(value, bool):
        what = f"the meta {variable.name} must be a finite number, not {value}"
        raise _error(graph, "E502", what, variable.span, f"as in --set {variable.name}=0.05")
    return number


def _load(graph: Graph, variable: Variable, file: str | Path) -> np.ndarray:
    hint = f"write an array of the shape {show(variable.shape)} with numpy.save"
    hint = hint if variable.shape else f"write --init {variable.name}=0.1"
    refuse = lambda what, hint: _error(
        graph, "E506", f"the start of {variable.name}: {what}", variable.span, hint
    )
    kind = Input("a .npy file", hint, refuse, MEMORY, (0, npy.MAGIC_PREFIX))
    return kind.array_of(kind.data(file), file)


def _error(graph: Graph, code: str, message: str, span: Span, hint: str) -> KernelError:
    return error(code, message, span, hint=hint, source=graph.source or None)
