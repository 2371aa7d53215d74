"""Functions, operators and indices on values: both front ends come here with what the user wrote."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..dialect import Function, Signature, owner
from . import dims as D
from .builder import GraphBuilder, Operand, Ref
from .constants import kind_of
from .diagnostics import KernelError, Span, error
from .hints import closest
from .operations import OPERATIONS, SYMBOLS, Elementwise, Reduction, Structural


def _of_operation(operation: Elementwise | Reduction | Structural) -> Function:
    """Return the function that kernels call for an operation."""
    name, apply = operation.name, _application(operation)
    shown = [
        inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any")
        for p in (("v",) if isinstance(operation, Reduction) else operation.operands)
    ]
    required = tuple(p.name for p in shown)
    signature = Signature(f"{name}({', '.join(required)})", required, {}, len(required))
    if isinstance(operation, Reduction):
        usage = f"{name}(v) or {name}(v, axis=0)"
        signature = Signature(usage, required, {"axis": None}, 1, operation.too_many)
        axis = inspect.Parameter(
            "axis", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="int | None"
        )
        shown.append(axis)
    declared = inspect.Signature(shown, return_annotation="Tensor")
    return Function(name, signature, apply, declared, operation.doc)


def _application(operation: Elementwise | Reduction | Structural) -> Callable[..., Any]:
    name = operation.name
    if isinstance(operation, Elementwise):
        return lambda builder, span, **a: builder.elementwise(name, list(a.values()), span)
    if isinstance(operation, Reduction):
        return lambda builder, span, v, axis: builder.reduce(name, v, axis, span)
    return lambda builder, span, **a: getattr(builder, name)(*a.values(), span)


#: the functions on values, one for every operation with a docstring, which dialects may offer
VALUES: dict[str, Function] = {
    name: _of_operation(operation) for name, operation in OPERATIONS.items() if operation.doc
}

_LOGIC_HINT = (
    "join conditions with * (both hold), turn one round with 1 - c; comparisons give 0 or 1"
)
_OPERATOR_HINTS = {
    "==": "compare with (a <= b) * (a >= b)",
    "!=": "compare with 1 - (a <= b) * (a >= b)",
    "&": _LOGIC_HINT,
    "|": _LOGIC_HINT,
    "^": _LOGIC_HINT,
    "~": _LOGIC_HINT,
}
_WHERE_HINT = (
    "use ps.where(condition, a, b) (as text: where), which computes both sides and picks one"
)


def bind_arguments(
    called: Function,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
    source: str | None = None,
    gone: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the arguments by name, defaults filled in; `gone`: hints for those that there were. Raises KernelError (E203)."""
    name, signature = called.name, called.signature
    parameters = [*signature.required, *signature.optional]
    usage = f"usage: {signature.usage}"

    def wrong(message: str, hint: str = usage) -> KernelError:
        return error("E203", message, span, hint=hint, source=source)

    if len(args) > signature.positional:
        takes = _arguments(signature.positional)
        raise wrong(f"{name} takes {takes}, not {len(args)}", usage + signature.too_many)
    values = dict(zip(parameters, args, strict=False))
    for key, value in keywords.items():
        if key not in parameters:
            raise wrong(f"{name} has no argument {key}", gone.get(key, usage))
        if key in values:
            raise wrong(f"{name} gets its argument {key} twice")
        values[key] = value
    for key in signature.required:
        if key not in values:
            raise wrong(f"{name} lacks its argument {key}")
    return {key: values.get(key, signature.optional.get(key)) for key in parameters}


def call(
    builder: GraphBuilder, name: str, args: Sequence[Any], keywords: Mapping[str, Any], span: Span
) -> Any:
    """Call a function on values of the kernel and literals. Returns what the function gives, a Ref for most. Raises KernelError."""
    if name not in builder.functions:
        raise unknown_function(builder, name, span)
    called = builder.functions[name]
    a = bind_arguments(called, args, keywords, span, builder.source, builder.dialect.words.gone)
    return called.apply(builder.source if called.literal else builder, span, **a)


def operator(builder: GraphBuilder, symbol: str, operands: Sequence[Operand], span: Span) -> Ref:
    """Apply an operator; a `-` or `+` with one operand is the unary one. Raises KernelError (E205 for operators that kernels
    lack).
    """
    builder.computes(span)
    if (special := builder.special_operator(symbol, operands, span)) is not None:
        return special
    if len(operands) == 1 and symbol == "+":
        return builder.operand(operands[0], span)
    if (symbol, len(operands)) in SYMBOLS:
        return builder.elementwise(SYMBOLS[symbol, len(operands)], operands, span)
    if symbol == "@":
        return builder.matmul(operands[0], operands[1], span)
    if symbol == "**":
        return _power(builder, operands[0], operands[1], span)
    raise no_operator(builder, symbol, span)


def _power(builder: GraphBuilder, value: Operand, exponent: Operand, span: Span) -> Ref:
    """`value ** exponent` as products, for the exponents 1 to 8, or a square root, for 0.5."""
    number = builder.number(exponent)
    if number == 0.5:
        return builder.elementwise("sqrt", [value], span)
    if number is None or number not in range(1, 9):
        hint = "write exp(b * log(a)) for a positive base"
        if number is not None and number < 0:
            hint = f"write 1 / v ** {-number:g}"
        elif number is not None and number > 8 and float(number).is_integer():
            hint = (
                f"multiply powers, as in v ** 8 * v ** {number - 8:g}"
                if number <= 16
                else "use a smaller exponent: powers grow fast"
            )
        elif number == 0:
            hint = "write 1, which it always is"
        raise builder.error(
            "E205", "** takes a constant exponent from 1 to 8, or 0.5", span, hint=hint
        )
    square, bits = builder.operand(value, span), int(number)
    result: Ref | None = None
    while bits:
        if bits & 1:
            result = (
                square if result is None else builder.elementwise("mul", [result, square], span)
            )
        bits >>= 1
        if bits:
            square = builder.elementwise("mul", [square, square], span)
    assert result is not None
    return result


def index(builder: GraphBuilder, value: Operand, items: Sequence[Any], span: Span) -> Ref:
    """Index by `":"`, `"..."` and None, which puts in a dimension of one. Raises KernelError (E208) for anything else."""
    builder.computes(span)
    if (selected := builder.select(value, items, span)) is not None:
        return selected
    ref = builder.operand(value, span)
    rank = len(builder.shape(ref))
    for item in items:
        if item is not None and not (isinstance(item, str) and item in (":", "...")):
            what = item if isinstance(item, str) else kind_of(item)
            raise builder.error(
                "E208",
                f"a value of the kernel cannot be indexed by {what}",
                span,
                hint="v[:, None] and v[None, :] are the only indices; pick elements with a vector of zeros and ones",
            )
    colons, dots = items.count(":"), items.count("...")
    if colons > rank or dots > 1:
        raise builder.error(
            "E208",
            f"too many indices for a value with {dimensions(rank)}",
            span,
            hint="each : stands for one dimension",
        )
    # what the indices leave out stands at the dots, or at the end
    gap = rank - colons
    axis = 0
    for item in items:
        if item is None:
            ref = builder.expand(ref, axis, span)
        axis += gap if item == "..." else 1
    return ref


def shape(builder: GraphBuilder, value: Operand, span: Span) -> D.Shape:
    """Return the sizes of a value's dimensions, as Python's numbers. Those that are not known yet are stand-ins."""
    builder.computes(span)
    sizes = builder.shape(value) if isinstance(value, Ref) else np.shape(value)
    builder.measured.update(dict.fromkeys(D.unresolved(sizes)))
    return sizes


def length(builder: GraphBuilder, value: Operand, span: Span) -> int:
    """Return the size of a value's first dimension. Raises KernelError (E207) for a scalar."""
    sizes = shape(builder, value, span)
    if not sizes:
        hint = "len is the size of a value's first dimension; a scalar has none"
        raise builder.error("E207", "a scalar has no length", span, hint=hint)
    return sizes[0]


def no_operator(builder: GraphBuilder | None, symbol: str, span: Span) -> KernelError:
    """Return the error for an operator that kernels lack."""
    return _error(
        builder,
        "E205",
        f"kernels have no operator {symbol}",
        span,
        _OPERATOR_HINTS.get(symbol, (builder or GraphBuilder).operators_hint),
    )


def no_attribute(builder: GraphBuilder, name: str, span: Span) -> KernelError:
    """Return the error for an attribute or method that values of a kernel lack."""
    builder.computes(span)
    hint = (
        f"write ps.{name}(v) (as text: {name}(v))"
        if name in builder.functions
        else builder.dialect.words.instead.get(name)
        or "only .T, the transpose, and .shape are there"
    )
    return builder.error("E215", f"a value of the kernel has no attribute {name}", span, hint=hint)


def control_flow(
    builder: GraphBuilder | None, what: str, span: Span, source: str | None = None
) -> KernelError:
    """Return the error for `what` (`if`, `and`, …) on a value that is known only in hardware."""
    dialect_hint = builder.dialect.words.no_condition if builder is not None else ""
    hint = dialect_hint or (
        _LOGIC_HINT
        if what in ("and", "or", "not")
        else "write (a < b) * (b < c)"
        if what == "a chained comparison"
        else f"write ps.where(a {'>' if what == 'max' else '<'} b, a, b); ps.{what}(v) is over the elements of v"
        if what in ("max", "min")
        else _WHERE_HINT
    )
    shown = what if " " in what or what == "Python" else f"`{what}`"
    if what in ("and", "or", "not", "a chained comparison") and not dialect_hint:
        hint += "; ps.where(condition, a, b) picks one of two values"
    return _error(
        builder,
        "E206",
        f"{shown} cannot decide on a value that is known only when the hardware runs",
        span,
        hint,
        source,
    )


def unknown_name(builder: GraphBuilder, name: str, known: Iterable[str], span: Span) -> KernelError:
    names = [other for other in known if other != name]
    hint = (
        closest(name, names)
        or f"give it a value first; there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    )
    return builder.error("E201", f"the name {name} is not defined", span, hint=hint)


def unknown_function(builder: GraphBuilder, name: str, span: Span) -> KernelError:
    words, mine, other = builder.dialect.words, builder.functions, owner(name)
    if other is not None and name not in mine:
        kind = f"one that {words.does}" if words.does else words.one
        message = f"{name} is a {other.words.call} of {other.words.one}, not of {kind}"
        hint = other.begin
        if words.no_function:
            message = f"{name} is no {words.call} of {words.one}"
            hint = f"{words.no_function}; what {other.words.does} stands under @ps.{other.keyword} (as text: `{other.keyword}`)"
        return builder.error("E451", message, span, hint=hint)
    near = words.instead.get(name) or closest(name, mine)
    return builder.error(
        "E202",
        f"there is no function {name}",
        span,
        hint=f"write ps.{name}" if name in mine else near or f"the functions are {', '.join(mine)}",
    )


def _error(
    builder: GraphBuilder | None,
    code: str,
    message: str,
    span: Span,
    hint: str,
    source: str | None = None,
) -> KernelError:

    return error(
        code, message, span, hint=hint, source=builder.source if builder is not None else source
    )


def dimensions(count: int) -> str:
    """Return a number of dimensions in words."""
    return f"{count} dimension" if count == 1 else f"{count} dimensions"


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count} arguments"
