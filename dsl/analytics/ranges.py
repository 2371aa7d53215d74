"""Numbers of a kernel that its format cannot hold: constants, metas, starts of models. The hardware computes with the nearest
number that it has, so these are warnings.
"""

import math

import numpy as np

from ...models.numerics.formats import Fixed, Float, Format, float32
from ...models.numerics.policy import InputPolicy
from ..core.diagnostics import Diagnostic, Span, error
from ..core.graph import Graph, Uniform
from .integers import MEANINGS

#: warnings alone
_GOES_ON = InputPolicy("saturate", "pass")


def most_counted(fmt: Format) -> int:
    """Return up to which number tuples can be counted exactly in a format."""
    if isinstance(fmt, Float):
        return min(2 << fmt.fraction_bits, int(fmt.max_value))
    return int(fmt.max_value)


def check_counts(graph: Graph, fmt: Format) -> None:
    """Raise KernelError (E428) where tuples, or the elements whose place is asked for, are more than the format can count.
    How many tuples an epoch has is not known here."""
    for node in graph.nodes:
        if node.op == "merge" and node.attrs.get("counts"):
            too_many(node.attrs["count"], fmt, node.span)
        too_many(node.attrs.get("places", 1) - 1, fmt, node.span)


def too_many(count: int, fmt: Format, span: Span) -> None:
    """Raise KernelError (E428) where a format cannot count so far."""
    if count > (most := most_counted(fmt)):
        raise error(
            "E428",
            f"this counts up to {count:,}, but {fmt.name} is exact only up to {most:,}",
            span,
            hint="count fewer tuples or elements, or take a format that counts further; "
            "float32 counts to 16,777,216",
        )


def out_of_range(graph: Graph, fmt: Format, policy: InputPolicy = _GOES_ON) -> list[Diagnostic]:
    """Return a warning (W103) for every number, or array of numbers, that overflows the format or becomes 0 in it.

    `policy`: what numbers do that do not fit. Raises KernelError (E445) for one that is an error.
    """
    integers = _of_integers(graph)
    numbers = [
        ("constant", node.attrs["value"], node.span)
        for index, node in enumerate(graph.nodes)
        if node.op == "const" and index not in integers
    ]
    numbers += [
        (f"meta {v.name}", v.value, v.span) for v in graph.of_kind("meta") if v.value is not None
    ]
    for model in graph.of_kind("model"):
        start = [model.init.low, model.init.high] if isinstance(model.init, Uniform) else model.init
        numbers.append((f"start of {model.name}", start, model.span))
    findings = (
        _finding(what, np.asarray(value, dtype=np.float64), span, fmt, policy)
        for what, value, span in numbers
    )
    return [diagnostic for diagnostic in findings if diagnostic is not None]


def check_learned(graph: Graph, fmt: Format) -> None:
    """Raise KernelError (E445) where a number that was learned is beyond the format, or becomes 0 in it: one of a fit, whose weights have
    the range of float64."""
    for model in graph.of_kind("model"):
        values = np.asarray(model.init, dtype=np.float64)
        held = fmt.decode(fmt.encode(values))
        lost = np.isfinite(values) & (values != 0) & ((held == 0) | ~np.isfinite(held))
        if lost.any():
            value = float(values[lost].flat[0])
            why = "is too small for" if abs(value) < 1 else "is beyond"
            what = f"{int(lost.sum())} of {values.size} learned numbers of {model.name}: {value:g} {why} {fmt.name}"
            hint = "the host scores in float64 (backend host); or learn from columns in other units"
            raise error("E445", what, model.span, hint=hint)


def _of_integers(graph: Graph) -> set[int]:
    """Return the constants that integers alone are made of, which are exact in every format."""
    values, integers = set[int](), set[int]()
    for node in graph.nodes:
        (integers if node.op in MEANINGS else values).update(node.inputs)
    return integers - values


def _finding(
    what: str, values: np.ndarray, span: Span, fmt: Format, policy: InputPolicy
) -> Diagnostic | None:
    held = fmt.decode(fmt.encode(values))
    special = ~np.isfinite(values) if isinstance(fmt, Float) else np.isnan(values)
    if special.any() and not policy.passes:
        message = f"the {what} is {values[special].flat[0]}, which is no finite number"
        hint = "--on-nan pass computes with it, in formats that have NaN; or give a number"
        raise error("E445", message.replace("the constant", "a constant"), span, hint=hint)
    nonzero = values != 0
    over = ~np.isfinite(held)
    if isinstance(fmt, Fixed):
        # what rounds to the last number is not beyond it
        half = 2.0 ** -(fmt.fraction_bits + 1)
        over = (values > fmt.max_value + half) | (values < fmt.min_value - half)
    if over.any():
        worst = int(np.argmax(np.where(over, np.abs(values), 0)))
        hint = _wider(fmt, float(np.abs(values).max()))
    elif nonzero.any() and not held[nonzero].any():
        over, worst = nonzero, int(np.argmax(np.abs(values)))
        hint = _finer(fmt, float(np.abs(values).max()))
    else:
        return None
    value, becomes = float(values.flat[worst]), float(held.flat[worst])
    why = "is too small for" if becomes == 0 else "is beyond"
    if values.size == 1:
        message = f"the {what}, {value:g}, {why} {fmt.name} and becomes {becomes:.12g}"
    else:
        many = f"{int(over.sum())} of {values.size} elements of the {what}"
        message = f"{many}: {value:g} {why} {fmt.name} and becomes {becomes:.12g}"
    message = message.replace("the constant", "a constant")
    if becomes != 0 and not policy.saturates and not special.any():
        hint += "; --on-overflow saturate computes with the end of the range"
        raise error("E445", message, span, hint=hint)
    return Diagnostic("W103", message, span, hint=hint, severity="warning")


def _wider(fmt: Format, largest: float) -> str:
    bits = math.frexp(largest)[1] + 2
    if isinstance(fmt, Fixed) and bits <= 32:
        return f"a format with more integer bits holds it, such as {Fixed(bits, min(fmt.fraction_bits, 32 - bits)).name}; or scale it"
    if np.isfinite(float32.decode(float32.encode(largest))):
        return "float32 holds it; or scale it"
    return (
        "use a smaller number, such as 1e38 in float32: nothing that is computed here comes near it"
    )


def _finer(fmt: Format, largest: float) -> str:
    # four bits of the number, so that it is not only rounded to a power of two
    bits = 4 - math.frexp(largest)[1]
    if isinstance(fmt, Fixed) and fmt.integer_bits + bits <= 32:
        return f"a format with more fraction bits holds it, such as {Fixed(fmt.integer_bits, bits).name}; or scale it"
    if float32.decode(float32.encode(largest)) != 0:
        return "float32 holds it; or scale it"
    return "scale the numbers of the kernel, or write 0"
