"""The policy for data that a number format does not hold, as users choose it on any engine."""

from penstock.dsl.core.diagnostics import Span, error
from penstock.models.numerics.policy import InputPolicy


def input_policy(
    on_overflow: str | None = None,
    on_nan: str | None = None,
    *,
    has_nan: bool,
    format: str,
    rows: bool = True,
) -> InputPolicy:
    """Return the policy that the options `on_overflow` and `on_nan` choose; None is the default.

    Parameters: `has_nan`: whether the engine's number format has one; `format`: its name; `rows`:
    whether the data are rows of which one can be left out.

    Raises KernelError (E608) for a choice that there is not, or not here.
    """
    try:
        policy = InputPolicy(on_overflow or "error", on_nan or "error")
    except ValueError as problem:
        hint = "the default is error: the run ends at the first value that does not fit"
        raise error("E608", str(problem), Span.whole("options"), hint=hint) from None
    if policy.passes and not has_nan:
        message = f"on_nan is pass, but {format} has no NaN that could pass"
        hint = "skip leaves such rows out" if rows else "a floating-point format has NaN"
        raise error("E608", message, Span.whole("--on-nan"), hint=hint)
    if policy.skips and not rows:
        message = "on_nan is skip, but there is no row that could be left out"
        hint = "pass computes with a NaN in formats that have it; or take it out of the data"
        raise error("E608", message, Span.whole("--on-nan"), hint=hint)
    return policy
