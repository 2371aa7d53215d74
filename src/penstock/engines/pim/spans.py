"""What the host computes, in float64 with how far it may be from that when what was read is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.operations import apply
from penstock.dsl.pim.recurrent import Recurrent, in_turn

Floats = NDArray[np.float64]
#: functions that rise, which are evaluated at both ends
_RISING = ("exp", "log", "sqrt", "sigmoid", "tanh")
_COMPARISONS = ("lt", "gt", "le", "ge")


@dataclass(frozen=True)
class Span:
    """A value in float64, with an axis of items in front where it is `batched`; how far the host's may be from it is `rest` and, for
    each result by name, a slope times the error of that element of it."""

    value: Floats
    rest: Floats | float = 0.0
    slopes: Mapping[str, Floats] = field(default_factory=dict)
    batched: bool = True

    @property
    def exact(self) -> bool:
        return not self.slopes and not np.any(self.rest)


class Spans:
    """The nodes of a recurrence in one token. `values`: of inputs, states and results, by name; `errors`: of results."""

    def __init__(
        self, recurrent: Recurrent, values: Mapping[str, Span], errors: Mapping[str, Floats]
    ) -> None:
        self.recurrent, self.values, self.errors = recurrent, values, errors
        self._made: dict[int, Span] = {}

    def error(self, span: Span) -> Floats:
        """Return how far a value may be from float64's."""
        total = np.zeros(span.value.shape) + span.rest
        for name, slope in span.slopes.items():
            total = total + np.abs(slope) * self.errors[name]
        return total

    def of(self, wanted: int) -> Span:
        """Return a node."""
        with np.errstate(all="ignore"):
            for number, node in in_turn(wanted, self.recurrent.nodes.__getitem__, self._made):
                self._made[number] = self._node(node)
        return self._made[wanted]

    def _node(self, node: Any) -> Span:
        if node.op == "const":
            return Span(np.asarray(node.attrs["value"], dtype=np.float64), batched=False)
        if node.op in ("input", "state", "unit"):
            return self.values[node.attrs["name"]]
        spans = [self._made[n] for n in node.inputs]
        flags = [one.batched for one in spans]
        if node.op == "flat":
            turn = lambda x: np.squeeze(x, node.attrs["axis"] + int(flags[0]))
            [one] = spans
            return Span(
                turn(one.value), 0.0 if one.exact else turn(self.error(one)), batched=flags[0]
            )
        run = lambda op, *arrays: apply(op, arrays, dict(node.attrs), flags[: len(arrays)])
        value, batched = run(node.op, *(one.value for one in spans)), any(flags)
        if all(one.exact for one in spans):
            return Span(value, batched=batched)
        rounding = 2.0**-51 * np.abs(value)  # of both
        if (linear := self._linear(node.op, spans, value, run)) is not None:
            return Span(value, linear[0] + rounding, linear[1])
        errors = [self.error(one) for one in spans]
        rest = _error(node.op, [one.value for one in spans], errors, value, run) + rounding
        return Span(value, np.where(np.isnan(rest), np.inf, rest), batched=batched)

    def _linear(self, op: str, spans: Sequence[Span], value: Floats, run: Any) -> Any:
        """Return rest and slopes of an operation that keeps slopes, None for others."""
        signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}
        slopes: dict[str, Floats] = {}
        if op in signs:
            rests = [np.zeros(one.value.shape) + one.rest for one in spans]
            rest = run("add", *rests) if len(rests) == 2 else rests[0]
            for sign, one in zip(signs[op], spans, strict=True):
                for name, slope in one.slopes.items():
                    slopes[name] = slopes.get(name, 0) + sign * slope
        elif op in ("mul", "div") and (spans[1].exact or (op == "mul" and spans[0].exact)):
            at = 0 if spans[1].exact else 1
            wide = lambda x: run(op, *((x, spans[1].value) if at == 0 else (spans[0].value, x)))
            zeros = np.zeros(spans[at].value.shape)
            rest = np.abs(wide(zeros + spans[at].rest))
            slopes = {n: wide(zeros + slope) for n, slope in spans[at].slopes.items()}
        else:
            return None
        if any(value.shape != self.errors[name].shape for name in slopes):
            return None
        return rest, slopes


def _error(
    op: str, values: Sequence[Floats], errors: Sequence[Floats], value: Floats, run: Any
) -> Floats:
    """Return how far a result may be from its value."""
    if op in ("add", "sub"):
        return np.asarray(run("add", *errors))
    if op in ("neg", "abs", "sum", "max", "min", "norm", "expand", "transpose"):
        through = {"neg": "abs", "min": "max"}.get(op, op)
        return np.asarray(run(through, errors[0]))
    if op in _RISING:
        low = values[0] - errors[0]
        low = np.where(low < 0, 0, low) if op in ("log", "sqrt") else low
        ends = run(op, low), run(op, values[0] + errors[0])
        return np.maximum(value - ends[0], ends[1] - value)
    if op == "gaussian":
        return np.minimum(0.86 * errors[0], 1.0)
    sizes = [np.abs(v) for v in values]
    if op in ("mul", "matmul", "outer", "prod"):
        tops = [a + e for a, e in zip(sizes, errors, strict=True)]
        return np.asarray(run(op, *tops) - run(op, *sizes))
    if op == "div":
        zeros = [np.zeros_like(v) for v in values]
        below = run("add", zeros[0], sizes[1] - errors[1])
        most = run("add", errors[0], zeros[1]) + np.abs(value) * run("add", zeros[0], errors[1])
        return np.where(below > 0, most / below, np.inf)
    if op == "where":
        either = []
        for flag in (1.0, 0.0):
            chosen = np.full_like(values[0], flag)
            away = run("where", chosen, *errors[1:])
            either.append(np.abs(run("where", chosen, *values[1:]) - value) + away)
        sure = run(
            "where",
            errors[0],
            *(np.full_like(v, n) for n, v in zip((0.0, 1.0), values[1:], strict=True)),
        )
        kept = run("where", values[0], *errors[1:])
        return np.where(sure == 1, kept, np.maximum(*either))
    if op not in _COMPARISONS:
        raise LookupError(f"how an error goes through {op} is not known")
    # it may be the other way round where the operands' spans meet
    apart = np.abs(run("sub", *values)) > run("add", *errors)
    return np.where(apart, 0.0, 1.0)
