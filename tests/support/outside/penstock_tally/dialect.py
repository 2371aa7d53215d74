"""`@ps.tally` and `tally name(...)`: a kernel that names its words and a gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.dsl.core.builder import GraphBuilder, Ref
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.python import Traced
from penstock.dsl.core.text import Body, Written
from penstock.dsl.dialect import Dialect, Words, function

__all__ = ["DIALECT", "Tally"]


@function
def total(builder: GraphBuilder, span: Any, words: Any) -> Ref:
    """The sum of all words."""
    return builder.elementwise("mul", [words, 1], span)


@dataclass
class Tally(AnyKernel):
    """A kernel that sums. `gain`: what the sum is multiplied by."""

    gain: int = 1
    keyword = "tally"
    engine = "tally"
    title = "tally kernel"

    def check(self, dims: Any = None) -> list[Any]:
        self.check_dims(dims or {})
        self.body(GraphBuilder(self.dialect, self.parameters, dims or {}, self.source))
        return []

    def body(self, builder: GraphBuilder) -> Any:
        raise NotImplementedError

    def set_option(self, name: str, value: Any, span: Any) -> None:
        self.gain = int(value)


class PythonTally(Traced, Tally):
    def body(self, builder: GraphBuilder) -> Any:
        return self.plain(builder, self.run(builder), self.name_span)


class _Statements(Body):
    def update(self, token: Any, value: Any, span: Any) -> None:
        self.value = value


class TextTally(Written, Tally):
    def body(self, builder: GraphBuilder) -> Any:
        statements = _Statements(self, builder)
        statements.run()
        return statements.value


def _options(*, gain: int = 1) -> None:
    """Sum words. `gain`: what the sum is multiplied by."""


DIALECT = Dialect(
    keyword="tally",
    kinds=("words",),
    functions={"total": total},
    kernel=Tally,
    python=PythonTally,
    text=TextTally,
    options=_options,
    words=Words(
        one="a tally kernel",
        usage="@ps.tally(gain=2)",
        header="x: words",
        example=('ps.Words["n"]', "words[n]"),
        returns="a value",
    ),
)
