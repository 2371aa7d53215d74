"""Attention over two caches: softmax(scale · K q) V, taken apart into what scores take, and what the values take.

Caches that grow take a row each, K = append(K, key), before a token reads the rows that they hold then: causal decoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.builder import GraphBuilder, Operand, Ref
from ..core.diagnostics import Span
from ..core.dims import Dim, show
from ..dialect import function
from .products import HostNodes, spoken
from .recurrent import HostNode, Pass, Recurrent, reached

#: what the scores that are read are called, and the weights that are made of them: names of no parameter
SCORES, WEIGHTS = ".scores", ".weights"
#: a cache, and one that took a row
_HELD = ("cache", "append")
_FORM = "attention is softmax(scale * (K @ q)) @ V, with a cache K of keys and a cache V of values"


@function
def softmax(builder: GraphBuilder, span: Span, v: Any) -> Ref:
    """The weights exp(v) / sum(exp(v)) of a cache's scores, made beside the banks."""
    ref = _vector(builder, span, v)
    return builder.operation("softmax", [ref], builder.shape(ref), span)


@function
def append(builder: GraphBuilder, span: Span, cache: Any, row: Any) -> Ref:
    """A cache with one row more, behind its rows: each token appends a row, and reads it."""
    cache_ref, row_ref = builder.operand(cache, span), builder.operand(row, span)
    shape = builder.shape(cache_ref)
    if builder.nodes[cache_ref.index].op != "cache" or builder.shape(row_ref) != shape[1:]:
        what = f"append to {show(shape)} of {show(builder.shape(row_ref))}"
        hint = "a token appends one row, a vector, to a cache: K = append(K, key)"
        raise builder.error("E462", what, span, hint=hint)
    return builder.operation("append", [cache_ref, row_ref], shape, span)


def _vector(builder: GraphBuilder, span: Span, v: Operand) -> Ref:
    ref = builder.operand(v, span)
    if len(builder.shape(ref)) != 1 or builder.nodes[ref.index].op == "const":
        hint = f"it is of a vector of scores: {_FORM}"
        raise builder.error("E462", f"softmax of {show(builder.shape(ref))}", span, hint=hint)
    return ref


def matched(kernel: Any, builder: GraphBuilder, output: int) -> Recurrent:
    """Return traced attention. Raises KernelError (E462) for another form."""
    return _Matcher(kernel, builder).match(output)


class _Matcher:
    def __init__(self, kernel: Any, builder: GraphBuilder) -> None:
        self.kernel, self.builder = kernel, builder
        self.nodes = list(builder.nodes)
        self.host = HostNodes(self.nodes)

    def misfit(self, number: int, message: str) -> Exception:
        often = [
            f"{one.passes} passes over {one.axis}" for one in self.kernel.walked if one.forced_by
        ]
        forced = dict.fromkeys(why for one in self.kernel.walked for why in one.forced_by)
        more = f"; as it is written it takes {', '.join(often)}, forced by {', '.join(forced)}"
        hint = _FORM + (more if often else "")
        return self.kernel.fits(message, self.nodes[number].span, hint=hint)

    def match(self, output: int) -> Recurrent:
        soft = self._only(output, "softmax")
        read = self._reading(output, soft)
        scores, query = self._scaled(self.nodes[soft].inputs[0])
        (keys, key), (values, value) = (self._cache(n, at) for n, at in ((scores, 0), (read, 1)))
        self._check_grown(key, value, output)
        host = [HostNode(node.op, node.inputs, node.attrs) for node in self.nodes]
        host[read] = HostNode("unit", (), {"name": ".1"})
        host[scores] = HostNode("unit", (), {"name": SCORES})
        host[soft] = HostNode("input", (), {"name": WEIGHTS})
        for wanted in (output, query, *(n for n in (key, value) if n is not None)):
            self._check_rest([*host, *self.host.extra], scores, wanted)
        kernel, names = self.kernel, self.builder.names
        return Recurrent(
            kernel.name,
            "attention",
            keys.attrs["name"],
            tuple(p.name for p in kernel.of_kind("input")),
            self._sizes(keys),
            (*host, *self.host.extra),
            (Pass(q=query, k=key, result=SCORES), Pass(v=soft, k=value, result=".1")),
            output,
            kernel.source or "",
            tuple((p.name, tuple(p.dims)) for p in kernel.parameters),
            tuple((name, int(n)) for name, n in names.items() if n.known),
            values=(values.attrs["name"], *self._sizes(values)),
            scores=scores,
        )

    @staticmethod
    def _sizes(cache: Any) -> tuple[int | None, int | None]:
        known = [None if isinstance(n, Dim) and not n.known else int(n) for n in cache.shape]
        return known[0], known[1]

    def _reached(self, output: int, nodes: Sequence[Any] | None = None) -> list[int]:
        """Return the nodes that one is made of, with it."""
        return sorted(reached([output], (nodes or self.nodes).__getitem__))

    def _only(self, output: int, op: str) -> int:
        """Return the only node of an operation that an output is made of."""
        nodes = [n for n in self._reached(output) if self.nodes[n].op == op]
        if len(nodes) != 1:
            what = (
                f"the output has no {op}" if not nodes else f"the output has {len(nodes)} of {op}"
            )
            raise self.misfit(nodes[-1] if nodes else output, what)
        return nodes[0]

    def _reading(self, output: int, soft: int) -> int:
        """Return the product of the weights and the values."""
        reads = [n for n in self._reached(output) if soft in self.nodes[n].inputs]
        if len(reads) != 1 or self.nodes[reads[0]].op != "matmul":
            raise self.misfit(
                reads[0], f"{spoken(self.nodes[reads[0]].op)} of the weights does not fit"
            )
        return reads[0]

    def _check_rest(self, host: Sequence[HostNode], scores: int, output: int) -> None:
        """Raise where the host's own is made of scores or of a cache."""
        for number in self._reached(output, host):
            if any(n == scores or host[n].op in _HELD for n in host[number].inputs):
                raise self.misfit(
                    number, f"{spoken(host[number].op)} of scores or of a cache does not fit"
                )

    def _scaled(self, number: int) -> tuple[int, int]:
        """Return the product of keys and query under a softmax, and the query times log2 e and the factors beside it."""
        factors, last = [], number
        while self.nodes[number].op in ("mul", "div", "neg"):
            node = self.nodes[number]
            vectors = [n for n in node.inputs if len(self.nodes[n].shape) == 1]
            if len(vectors) != 1 or (node.op == "div" and vectors[0] == node.inputs[1]):
                break
            factors.append((node.op, [n for n in node.inputs if n != vectors[0]]))
            number = vectors[0]
        caches = [n for n in self.nodes[number].inputs if self.nodes[n].op in _HELD]
        if self.nodes[number].op != "matmul" or not caches:
            raise self.misfit(last, f"softmax of the result of {spoken(self.nodes[last].op)}")
        [query] = [n for n in self.nodes[number].inputs if n not in caches]
        scaled_query = self.host.op("mul", query, self.host.number(math.log2(math.e)))
        for op, others in factors:
            scaled_query = self.host.new(op, (scaled_query, *others), {})
        return number, scaled_query

    def _cache(self, number: int, at: int) -> tuple[Any, int | None]:
        """Return the cache that a product reads, as its operand `at`, and the row that it takes before; the other operand is a vector."""
        inputs = self.nodes[number].inputs
        source, other = self.nodes[inputs[at]], self.nodes[inputs[1 - at]]
        if source.op not in _HELD or len(other.shape) != 1:
            raise self.misfit(number, "the keys are read by K @ q, the values by weights @ V")
        if source.op == "cache":
            return source, None
        return self.nodes[source.inputs[0]], source.inputs[1]

    def _check_grown(self, key: int | None, value: int | None, output: int) -> None:
        """Raise where one cache grows alone, or is read as it was before."""
        grown = [n for n, node in enumerate(self.nodes) if node.op == "append"]
        count = 2 * (key is not None)
        if (key is None) != (value is None) or len(grown) != count:
            what = "caches grow together, one row each a token, and are read behind it"
            raise self.misfit(grown[-1] if grown else output, what)
