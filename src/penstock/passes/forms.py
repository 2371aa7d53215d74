"""What passes take and give: a kernel with what was asked for, and the design at the end."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from penstock.dsl.core.diagnostics import Diagnostic, Span
from penstock.engines.workload import Given
from penstock.models.target import Target

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.design import Design

Kind = TypeVar("Kind", bound="Form")


@dataclass(frozen=True)
class Request:
    """What the first pass takes: a kernel as it was loaded, and what was asked for.

    `quick`: that there is a design is enough; it need not be the fastest.
    """

    kernel: AnyKernel
    part: Target
    args: Given
    quick: bool = False

    def form(self, kind: type[Kind], **content: Any) -> Kind:
        """Return the first form."""
        kernel = self.kernel
        origin = Origin(kernel.name, kernel.title, kernel.file, kernel.source, kernel.name_span)
        return kind(
            origin=origin,
            part=self.part,
            args=self.args,
            quick=self.quick,
            **content,
        )


@dataclass(frozen=True)
class Origin:
    """Where a kernel stands, for messages: as `AnyKernel` has it."""

    name: str
    title: str
    file: str
    source: str | None = field(repr=False)
    name_span: Span


@dataclass(frozen=True, kw_only=True)
class Form:
    """What stands between two passes. All of it is in its text (`penstock.passes.form_text`) but the data that are compiled for.

    `part`: the target, from the choice of a plan on with the clock that so full a part may have; `args`, `quick`: as of `Request`; `warnings`: what was
    found doubtful so far.
    """

    #: records that stand where the type of a field says nothing
    untyped: ClassVar[tuple[type, ...]] = ()

    origin: Origin
    part: Target
    args: Given
    quick: bool = False
    warnings: tuple[Diagnostic, ...] = ()

    def warned(self, *warnings: Diagnostic) -> Self:
        """Return the form with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def then(self, kind: type[Kind], **content: Any) -> Kind:
        """Return the next form. What this form has of it stays as it is, unless given."""
        same = {f.name: getattr(self, f.name) for f in fields(kind) if hasattr(self, f.name)}
        return kind(**{**same, **content})


@dataclass(frozen=True, kw_only=True)
class Designed(Form):
    """The last form before Verilog: the design, as reports, runs and files have it."""

    design: Design
