"""The steps of a fit kernel: `window`, `rank`, `slot` and `least_squares`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models.qr.job import Method
from ..core.builder import GraphBuilder, Operand, Ref
from ..core.constants import kind_of
from ..core.diagnostics import Span
from ..core.graph import Region
from ..core.hints import closest
from ..core.kernel import AnyKernel
from ..dialect import Function, function

#: kinds of parameters
KINDS = ("key", "input", "output")
#: options of fits over columns alone
OF_COLUMNS = ("intercept", "ridge", "ridge_per")
#: what a penalty may count
RIDGE_PER = ("weight", "sd")
#: most columns of a model, the bias among them, and so the most bytes of a window
MOST_COLUMNS = 64
LONGEST = MOST_COLUMNS - 1
USAGE = 'least_squares(window(key, 32), target=rank(key), method="gram")'
_KINDS = (
    "with target=slot(key) a refit reads the changed keys alone and widens the bounds of its errors, "
    "with target=rank(key) it reads all keys"
)
#: options that there were, and what to write instead
GONE = {
    "bounds": f"leave bounds out, they follow from the target: {_KINDS}",
    "sums": f"leave sums out, they follow from the target: {_KINDS}",
    "blocks": "leave blocks out, and write target=slot(key): its refits read the changed keys alone",
    "vectors": "leave vectors out: each method has one set of lanes, as wide as the windows",
}


class FitBuilder(GraphBuilder):
    """The steps of one fit kernel while they are written down; nothing can be computed with its values."""

    def computes(self, span: Span) -> None:
        message = "a fit kernel computes nothing with its values"
        raise self.error("E452", message, span, hint=f"it says what is fitted: {USAGE}")

    def transpose(self, value: Operand, span: Span) -> Ref:
        self.computes(span)
        raise AssertionError

    def spoken(self, value: Operand) -> str:
        """What a message calls a value."""
        if not isinstance(value, Ref):
            return kind_of(value)
        node = self.nodes[value.index]
        if node.op in KINDS:
            return "the key" if node.op == "key" else f"the {node.op} {node.attrs['name']}"
        return {"window": "a window", "rank": "a rank", "slot": "a slot"}.get(node.op, "a fit")

    def op(self, value: Operand) -> str:
        """The operation that gave a value, or nothing."""
        return self.nodes[value.index].op if isinstance(value, Ref) else ""

    def step(self, name: str, operands: Sequence[Ref], span: Span, attrs: dict[str, Any]) -> Ref:
        """Add a step whose operands were checked."""
        return self.add(name, tuple(ref.index for ref in operands), (), Region.TUPLE, span, attrs)

    def needs_key(self, name: str, key: Operand, span: Span) -> None:
        """Raise KernelError (E454) where a step that is taken of a key is taken of something else."""
        if self.op(key) != "key":
            message = f"{name} is taken of a key, not of {self.spoken(key)}"
            hint = "the key is the kernel's parameter: `key: ps.Key` (as text: `key: key`)"
            raise self.error("E454", message, span, hint=hint)


@function(usage="window(key, 32)")
def window(builder: FitBuilder, span: Span, key: Any, bytes: int) -> Ref:
    """The bytes of a key that tell a group's keys apart, at most so many; the index chooses where they begin, group by group."""
    builder.needs_key("window", key, span)
    return builder.step("window", [key], span, {"bytes": _bytes(builder, bytes, span)})


@function
def rank(builder: FitBuilder, span: Span, key: Any) -> Ref:
    """How many keys of the group lie before this one."""
    builder.needs_key("rank", key, span)
    return builder.step("rank", [key], span, {})


@function
def slot(builder: FitBuilder, span: Span, key: Any) -> Ref:
    """The key's place in the group's array, in which gaps are left."""
    builder.needs_key("slot", key, span)
    return builder.step("slot", [key], span, {})


@function(usage=USAGE)
def least_squares(
    builder: FitBuilder,
    span: Span,
    features: Any,
    target: Any,
    *,
    method: str | None = None,
    incremental: bool | None = None,
    intercept: bool | None = None,
    ridge: float | None = None,
    ridge_per: str | None = None,
) -> Ref:
    """The linear model of the features that comes nearest to the target: what a fit kernel returns.

    `method`: "gram" (exact integer sums; unless given) or "givens" (a triangular factor). `incremental`: refits read the
    changed rows alone (unless given); False: each reads all rows. Over keys it follows from the target: True with slots,
    False with ranks.

    Over columns: `intercept`: False fits no bias. `ridge`: what the square of a weight costs, the bias nothing; `ridge_per`: "weight",
    or "sd": of weights times their column's standard deviation.
    """
    what, spoken = builder.op(features), builder.spoken(features)
    if what not in ("window", "input"):
        hint = "features are window(key, 32), or the numeric columns of an input"
        if what == "key":
            hint = "write window(key, 32): the bytes that the model looks at"
        message = f"least_squares cannot take {spoken} for its features"
        raise builder.error("E454", message, span, hint=hint)
    wanted: tuple[str, ...] = ("output",)
    hint = (
        "the target of columns is the output: `y: ps.Output` (as text: `y: output`), then target=y"
    )
    if what == "window":
        wanted = ("rank", "slot")
        hint = "write target=rank(key), or target=slot(key) where the array has gaps"
    if builder.op(target) not in wanted:
        message = f"{builder.spoken(target)} is no target for {spoken}"
        raise builder.error("E459", message, span, hint=hint)
    options: dict[str, Any] = {"method": method, "incremental": incremental, "intercept": intercept}
    options |= {"ridge": ridge, "ridge_per": ridge_per}
    attrs = {
        name: checked_option(builder, name, value, span)
        for name, value in options.items()
        if value is not None
    }
    return builder.step("least_squares", [features, target], span, attrs)


FUNCTIONS: dict[str, Function] = {f.name: f for f in (window, rank, slot, least_squares)}


def _bytes(builder: FitBuilder, value: Any, span: Span) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        message = f"the longest window must be a whole number of bytes, not {builder.spoken(value)}"
        hint = "write it out, as in window(key, 32): the number is part of the hardware"
        raise builder.error("E455", message, span, hint=hint)
    if not 1 <= value <= LONGEST:
        message = f"a window of {value} bytes; it has 1 to {LONGEST}"
        hint = "the bytes that tell a group's keys apart are few: 8 to 32 do for most keys"
        hint = "one byte is the least" if value < 1 else hint
        raise builder.error("E455", message, span, hint=hint)
    return int(value)


def checked_option(builder: FitBuilder | AnyKernel, name: str, value: Any, span: Span) -> Any:
    """Return the value of an option of a fit where it is one. Raises KernelError (E458)."""
    if name in _SWITCHES:
        if not isinstance(value, (bool, np.bool_)):
            message = f"{name} must be True or False, not {kind_of(value)}"
            raise builder.error("E458", message, span, hint=_SWITCHES[name])
        return bool(value)
    if name == "ridge":
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not 0 <= value < np.inf:
            what = f"{value:g}" if number else kind_of(value)
            hint = "as in ridge=0.1: what the square of a weight costs"
            raise builder.error("E458", f"ridge must be 0 or more, not {what}", span, hint=hint)
        return float(value)
    names = RIDGE_PER if name == "ridge_per" else [kind.value for kind in Method]
    if not isinstance(value, str) or value not in names:
        hint = closest(value, names) if isinstance(value, str) else ""
        hint = hint or "known are " + " and ".join(f'"{known}"' for known in names)
        raise builder.error("E458", f"{name} cannot be {kind_of(value)}", span, hint=hint)
    return value if name == "ridge_per" else Method(value)


_SWITCHES = {
    "incremental": "True: refits go on from the last fit; False: each one reads all rows",
    "intercept": "True: a bias is fitted as well; False: the model goes through 0",
}
