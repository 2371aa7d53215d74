"""What kernels of all dialects have: a name, parameters, options, and a place in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..dialect import Dialect, find
from . import dims as D
from .constants import kind_of
from .diagnostics import Diagnostic, KernelError, Span, error
from .walks import Walked, walked


@dataclass
class Parameter:
    """One parameter."""

    name: str
    kind: str
    dims: tuple[str | int, ...]  #: as written: names or sizes
    span: Span
    default: float | None = None  #: a meta's value, None where it has none


@dataclass
class Option:
    """An option of a kernel (its epochs, a model's start) with the place where it stands."""

    value: Any
    span: Span


@dataclass
class AnyKernel(ABC):
    """What kernels of all dialects have: a name, parameters, a place in a file, and a check."""

    name: str
    file: str
    source: str | None
    parameters: list[Parameter]
    name_span: Span
    #: what the latest check or trace warned of
    warnings: list[Diagnostic] = field(default_factory=list, kw_only=True)
    #: a builder's, of the latest check or trace
    nodes: Sequence[Any] = field(default=(), kw_only=True, repr=False, compare=False)
    keyword: ClassVar[str]  #: the word that it begins with
    title: ClassVar[str] = "kernel"  #: what messages call it

    @property
    def dialect(self) -> Dialect:
        """The dialect that its keyword begins."""
        return find(self.keyword)

    @property
    def walked(self) -> tuple[Walked, ...]:
        """How often the values of the latest trace walk over each named axis."""
        return walked(self.nodes, self.source)

    @abstractmethod
    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        """Check the kernel for sizes that may still be unknown and return its warnings. Raises KernelError at the first error."""

    def beside(self, others: Sequence[AnyKernel]) -> AnyKernel:
        """Return the kernel with others in one design. Raises KernelError (E609) where there is no such design."""
        if not others:
            return self
        raise error(
            "E609",
            f"the {self.title} {self.name} is compiled alone",
            Span.whole("kernel"),
            hint="recurrences go together in one design",
        )

    def of_kind(self, kind: str) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.kind == kind]

    @property
    def dim_names(self) -> list[str]:
        """The names of its dimensions, in order of appearance."""
        return list(
            dict.fromkeys(
                dim
                for parameter in self.parameters
                for dim in parameter.dims
                if isinstance(dim, str)
            )
        )

    def error(
        self, code: str, message: str, span: Span, *notes: tuple[Span, str], hint: str
    ) -> KernelError:
        return error(
            code,
            message,
            span,
            *notes,
            hint=hint,
            source=self.source if span.file == self.file else None,
        )

    def check_header(self) -> None:
        """Check names, kinds and dimensions of the parameters. Raises KernelError."""
        self.check_names()
        for parameter in self.parameters:
            self.check_sizes(parameter)

    def set_default(self, parameter: Parameter, value: Any, span: Span) -> None:
        """Give a parameter its default. Raises KernelError where it takes none, as all do unless the dialect says otherwise."""
        raise self.error(
            "E403",
            f"the {parameter.kind} {parameter.name} has a default; parameters of {self.dialect.words.one} have none",
            span,
            hint="leave it out",
        )

    def set_option(self, name: str, value: Any, span: Span) -> None:
        """Set an option of the decorator, one of those that the dialect declares. Raises KernelError."""
        raise NotImplementedError(name)

    def largest(self, parameter: Parameter, axis: int) -> int:
        """Return the largest size of a dimension of a parameter."""
        return D.MAX_DIM

    def check_names(self) -> None:
        """Check that no name is given twice. Raises KernelError."""
        seen: dict[str, Parameter] = {}
        for parameter in self.parameters:
            if parameter.name in seen:
                raise self.error(
                    "E204",
                    f"{parameter.name} is defined twice",
                    parameter.span,
                    (seen[parameter.name].span, "first defined here"),
                    hint="give one of them another name",
                )
            seen[parameter.name] = parameter

    def check_sizes(self, parameter: Parameter) -> None:
        """Check a parameter's dimensions as they are declared. Raises KernelError."""
        for axis, dim in enumerate(parameter.dims):
            if isinstance(dim, str) and dim.isidentifier():
                continue
            if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
                raise self.error(
                    "E306",
                    f"{dim!r} is not a dimension"
                    if isinstance(dim, str)
                    else f"{kind_of(dim)} is not a dimension",
                    parameter.span,
                    hint="a dimension is a name or a whole number",
                )
            if dim < 1:
                raise self.error(
                    "E306", f"{dim} is not a dimension", parameter.span, hint="a size is at least 1"
                )
            if dim > (largest := self.largest(parameter, axis)):
                raise self.error(
                    "E307",
                    f"a dimension of {dim}; the largest is {largest}",
                    parameter.span,
                    hint=f"give {parameter.name} a smaller dimension"
                    + f": {D.LARGE_HINT}" * (largest == D.MAX_DIM),
                )

    def sized(self, dims: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sizes that the user gave without those that are "max": what an index counts is 1 + the table's largest value."""
        counted = {p.dims[0] for p in self.of_kind("index") if p.dims}
        return {name: n for name, n in dims.items() if n != "max" or name not in counted}

    def check_dims(self, dims: Mapping[str, int]) -> None:
        """Check sizes that the user gave. Raises KernelError for a name that the kernel does not use and for a size out of
        range.
        """
        for name, size in dims.items():
            if name not in self.dim_names:
                used = ", ".join(self.dim_names)
                raise self.error(
                    "E504",
                    f"the kernel {self.name} has no dimension {name}",
                    self.name_span,
                    hint=f"its dimensions are {used}" if used else "it has no named dimensions",
                )
            largest = min(
                self.largest(parameter, axis)
                for parameter in self.parameters
                for axis, dim in enumerate(parameter.dims)
                if dim == name
            )
            if (
                isinstance(size, bool)
                or not isinstance(size, (int, np.integer))
                or not 1 <= size <= largest
            ):
                raise self.error(
                    "E504",
                    f"dimension {name} cannot have the size {size}",
                    self.name_span,
                    hint=f"a size is a whole number from 1 to {largest}",
                )
