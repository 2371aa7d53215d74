"""Recurrences, from either front end, and what of them the unit runs.

    recurrence mamba2(S: state[k, v], d: input[k], k: input[k], v: input[v], q: input[k])
      S <- d[:, None] * S + outer(k, v)
      y <- q @ S

A step reads the old state, decays it and adds outer products, S' = d ⊙ S + k vᵀ, and reads the new one, y = S'ᵀ q; or it reads a
cache that it does not change. What makes d, k, v and q out of inputs and of what was read, and the result, are operations without the
state: the host computes them. States that are vectors or numbers are the host's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.builder import GraphBuilder, Ref
from ..core.constants import kind_of
from ..core.diagnostics import Diagnostic, KernelError, Span
from ..core.dims import show
from ..core.kernel import AnyKernel, Parameter
from . import attention
from .graph import matched
from .recurrent import Recurrent


@dataclass
class Returned:
    """What a recurrence returns, each with its place: the new states by name, the output (None where there is none)."""

    states: dict[str, tuple[Any, Span]]
    output: Any
    output_span: Span


@dataclass
class Recurrence(AnyKernel):
    """A kernel of the pim engine."""

    keyword = "recurrence"
    title = "recurrence"
    #: those that are compiled into one design with it
    others: tuple[Recurrence, ...] = field(default=(), kw_only=True)

    def beside(self, others: Sequence[AnyKernel]) -> Recurrence:
        if foreign := [k for k in others if not isinstance(k, Recurrence)]:
            super().beside(foreign)
        return replace(self, others=tuple(k for k in others if isinstance(k, Recurrence)))

    @abstractmethod
    def body(self, builder: GraphBuilder) -> Returned:
        """Run the step on the builder and return what it returns."""

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        self.trace(dims)
        return []

    def trace(self, dims: Mapping[str, int] | None = None) -> Recurrent:
        """Return the recurrence in the unit's form. Raises KernelError."""
        self.check_dims(dims or {})
        builder = GraphBuilder(self.dialect, self.parameters, dims or {}, self.source)
        returned = self.body(builder)
        self.nodes = builder.nodes
        if returned.output is None:
            what = f"the recurrence {self.name} has no output"
            hint = "return the new state and the output: `return S, q @ S` (as text: `y <- q @ S`)"
            raise self.error("E461", what, self.name_span, hint=hint)
        for value, span in (*returned.states.values(), (returned.output, returned.output_span)):
            if not isinstance(value, Ref):
                what = f"a recurrence returns values of the kernel, not {kind_of(value)}"
                hint = "return the new state and the output: `return S, q @ S`"
                raise self.error("E461", what, span, hint=hint)
        if self.of_kind("cache"):
            for name, (value, span) in returned.states.items():
                node = builder.nodes[value.index]
                if node.op != "append" or node.inputs[0] != builder.variables[name].index:
                    how = f"{name} = append({name}, row)"
                    raise self.fits(f"the cache {name} grows by a row alone", span, hint=how)
            return attention.matched(self, builder, returned.output.index)
        states = self.of_kind("state")
        matrix = next(p for p in states if len(p.dims) == 2)
        for state in states:
            self._check_new(builder, state, returned)
        state_node = builder.variables[matrix.name].index
        new = {name: value.index for name, (value, _) in returned.states.items()}
        return matched(self, builder, state_node, new, returned.output.index)

    def _check_new(self, builder: GraphBuilder, state: Parameter, returned: Returned) -> None:
        """Raise KernelError (E461) where other states have new values and this one has none, or where its new value has another shape."""
        if not returned.states and len(self.of_kind("state")) == 1:
            return
        if state.name not in returned.states:
            what = f"the state {state.name} has no new value"
            hint = "return the new states in their order and the output: `return S, n, q @ S` (as text: `n <- …`)"
            raise self.error("E461", what, state.span, hint=hint)
        value, span = returned.states[state.name]
        variable = builder.variables[state.name]
        if builder.shape(value) != builder.shape(variable):
            what = f"the new state is {show(builder.shape(value))}, but {state.name} is {show(builder.shape(variable))}"
            hint = "d[:, None] * S + outer(k, v) has the shape of S"
            raise self.error(
                "E461", what, span, (state.span, f"{state.name} is declared here"), hint=hint
            )

    def fits(self, message: str, span: Span, *notes: tuple[Span, str], hint: str) -> KernelError:
        """The error of an operation that does not fit the unit."""
        return self.error("E462", message, span, *notes, hint=hint)

    # -- declarations

    def check_header(self) -> None:
        super().check_header()
        if caches := self.of_kind("cache"):
            self._check_caches(caches)
        states = self.of_kind("state")
        matrices = [p for p in states if len(p.dims) == 2]
        if not states and not caches:
            what = f"the recurrence {self.name} has no state"
            hint = 'it has one, as in `S: ps.State["k", "v"]` (as text: `S: state[k, v]`)'
            raise self.error("E463", what, self.name_span, hint=hint)
        if len(matrices) > 1:
            what = f"the recurrence {self.name} has {len(matrices)} states that are matrices"
            hint = "the banks hold one; other states are vectors or numbers, which the host keeps"
            raise self.error("E463", what, matrices[1].span, hint=hint)
        if not (matrices or caches) or any(len(p.dims) > 2 for p in states):
            wrong = next((p for p in states if len(p.dims) > 2), states[0])
            what = f"the state {wrong.name} has {len(wrong.dims)} dimensions; the state in the banks is a matrix"
            hint = 'as in `S: ps.State["k", "v"]`: one row for each element of k'
            raise self.error("E463", what, wrong.span, hint=hint)
        for parameter in self.of_kind("input"):
            if len(parameter.dims) > 1:
                what = f"the input {parameter.name} has {len(parameter.dims)} dimensions"
                hint = "an input is a vector or a number; each head has its own"
                raise self.error("E463", what, parameter.span, hint=hint)

    def _check_caches(self, caches: Sequence[Parameter]) -> None:
        """Raise KernelError (E463) unless there are two caches of as many keys, and no state."""
        wrong = next((p for p in caches if len(p.dims) != 2), None)
        if (
            len(caches) == 2
            and not wrong
            and not self.of_kind("state")
            and caches[0].dims[0] == caches[1].dims[0]
        ):
            return
        what = f"the recurrence {self.name} has no two caches of as many rows, one of keys and one of values, alone"
        hint = 'as in `K: ps.Cache["t", "k"], V: ps.Cache["t", "v"]`, without a state; one cache alone is a state that nothing changes'
        raise self.error("E463", what, (wrong or caches[-1]).span, hint=hint)
