"""A kernel language for tests of what all languages share: values, shapes and both front ends, and nothing of any engine.

It has the keyword `kernel`. While `alone` is in force no other language is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lark import Token

from penstock.dsl import dialect as registry
from penstock.dsl.core import codes, text
from penstock.dsl.core.builder import GraphBuilder
from penstock.dsl.core.diagnostics import Diagnostic, Span
from penstock.dsl.core.functions import VALUES
from penstock.dsl.core.graph import Graph, Node, Variable
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.python import Traced
from penstock.dsl.dialect import Dialect, Words

__all__ = ["alone"]


@dataclass
class Plain(AnyKernel):
    """A kernel that gives values of its parameters."""

    keyword = "kernel"

    def body(self, builder: GraphBuilder) -> None:
        """Run the kernel's operations on the builder."""
        raise NotImplementedError

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        self._traced(dims or {})
        return []

    def trace(self, dims: Mapping[str, int] | None = None, **sizes: int) -> Graph:
        builder = self._traced({**(dims or {}), **sizes})
        nodes = [
            Node(n.op, n.inputs, tuple(map(int, n.shape)), n.region, n.span, n.attrs)
            for n in builder.nodes
        ]
        places = {name: ref.index for name, ref in builder.variables.items()}
        variables = {
            p.name: Variable(p.name, p.kind, p.dims, nodes[n].shape, p.span, n)
            for p, n in zip(self.parameters, places.values(), strict=True)
        }
        return Graph(self.name, nodes, variables, (), None, 1, 1)

    def _traced(self, sizes: Mapping[str, int]) -> GraphBuilder:
        self.check_dims(sizes)
        builder = GraphBuilder(self.dialect, self.parameters, sizes, self.source)
        self.body(builder)
        self.nodes = builder.nodes
        return builder


@dataclass
class _Python(Traced, Plain):
    def body(self, builder: GraphBuilder) -> None:
        result = self.run(builder)
        for value in result if isinstance(result, tuple) else (result,):
            self.plain(builder, value, self.name_span)


@dataclass
class _Text(text.Written, Plain):
    def body(self, builder: GraphBuilder) -> None:
        _Body(self, builder).run()


class _Body(text.Body):
    def update(self, token: Token, value: Any, span: Span) -> None:
        pass


def _options() -> None:
    """Make a kernel of a function."""


_PLAIN = Dialect(
    keyword="kernel",
    kinds=("input", "output", "model"),
    functions=VALUES,
    kernel=Plain,
    python=_Python,
    text=_Text,
    options=_options,
    words=Words(
        one="a kernel",
        usage="@ps.kernel",
        header="x: input[d], w: model[d]",
        example=('ps.Input["d"]', "input[d]"),
        returns="values",
    ),
)


@contextmanager
def alone() -> Iterator[None]:
    """Have no language but this one."""
    package, known = sys.modules["penstock"], registry.dialects()
    assert isinstance(known, dict)
    kept = dict(known)
    names = {name for each in (*kept.values(), _PLAIN) for name in each.public}

    def forget() -> None:
        text._parser.cache_clear()
        codes.codes.cache_clear()
        for name in names:
            vars(package).pop(name, None)

    known.clear()
    known["kernel"] = _PLAIN
    forget()
    try:
        yield
    finally:
        known.clear()
        known.update(kept)
        forget()
