"""Recurrences, from either front end, and what of them the unit runs.

    recurrence mamba2(S: state[k, v], d: input[k], k: input[k], v: input[v], q: input[k])
      S <- d[:, None] * S + outer(k, v)
      y <- q @ S

A step has one form, S' = d ⊙ S + k vᵀ and y = S'ᵀ q, or reads a cache that it does not change. What makes d, k, v
and q out of inputs, and the result out of y, are operations without the state: the host computes them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.builder import GraphBuilder, Ref
from ..core.constants import kind_of
from ..core.diagnostics import Diagnostic, KernelError, Span
from ..core.dims import Dim, show
from ..core.kernel import AnyKernel
from .graph import matched
from .recurrent import Recurrent

__all__ = ["Recurrence", "Returned"]


@dataclass
class Returned:
    """What a recurrence returns, with places; None where it does not."""

    state: Any
    output: Any
    state_span: Span
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
        [state] = self.of_kind("state")
        if returned.output is None:
            raise self.error(
                "E461",
                f"the recurrence {self.name} has no output",
                self.name_span,
                hint="return the new state and the output: `return S, q @ S` (as text: `y <- q @ S`)",
            )
        for value, span in (
            (returned.state, returned.state_span),
            (returned.output, returned.output_span),
        ):
            if value is not None and not isinstance(value, Ref):
                raise self.error(
                    "E461",
                    f"a recurrence returns values of the kernel, not {kind_of(value)}",
                    span,
                    hint="return the new state and the output: `return S, q @ S`",
                )
        own = builder.variables[state.name]
        if returned.state is not None and builder.shape(returned.state) != builder.shape(own):
            raise self.error(
                "E461",
                f"the new state is {show(builder.shape(returned.state))}, but {state.name} is "
                f"{show(builder.shape(own))}",
                returned.state_span,
                (state.span, f"{state.name} is declared here"),
                hint="d[:, None] * S + outer(k, v) has the shape of S",
            )
        new = None if returned.state is None else returned.state.index
        return matched(self, builder, own.index, new, returned.output.index)

    def fits(self, message: str, span: Span, *notes: tuple[Span, str], hint: str) -> KernelError:
        """The error of an operation that does not fit the unit."""
        return self.error("E462", message, span, *notes, hint=hint)

    # -- declarations

    def check_header(self) -> None:
        super().check_header()
        states = self.of_kind("state")
        if len(states) != 1:
            raise self.error(
                "E463",
                f"the recurrence {self.name} has {len(states) or 'no'} state{'s' * (len(states) > 1)}",
                states[1].span if states else self.name_span,
                hint='it has one, as in `S: ps.State["k", "v"]` (as text: `S: state[k, v]`)',
            )
        if len(states[0].dims) != 2:
            raise self.error(
                "E463",
                f"the state {states[0].name} has {len(states[0].dims)} dimensions; a state is a matrix",
                states[0].span,
                hint='as in `S: ps.State["k", "v"]`: one row for each element of k',
            )
        for parameter in self.of_kind("input"):
            if len(parameter.dims) > 1:
                raise self.error(
                    "E463",
                    f"the input {parameter.name} has {len(parameter.dims)} dimensions",
                    parameter.span,
                    hint="an input is a vector or a number; each head has its own",
                )

    @staticmethod
    def size(value: Any) -> int | None:
        """Return a size, None where it is not known."""
        return None if isinstance(value, Dim) and not value.known else int(value)
