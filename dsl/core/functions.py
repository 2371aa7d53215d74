"""The functions and operators of kernels by name: both front ends come here with what the user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .builder import GraphBuilder, Operand, Ref
from .constants import kind_of, make_uniform
from .diagnostics import KernelError, Span, error
from .hints import closest

__all__ = [
    "FIT_FUNCTIONS",
    "FUNCTIONS",
    "call",
    "control_flow",
    "index",
    "no_attribute",
    "no_operator",
    "operator",
    "unknown_function",
    "unknown_name",
]


@dataclass(frozen=True)
class Signature:
    """How a function is called: positional arguments, and optional ones with their defaults."""

    usage: str
    required: tuple[str, ...]
    optional: Mapping[str, Any]
    positional: int  #: how many arguments may stand without a name


def _unary(name: str) -> Signature:
    return Signature(f"{name}(v)", ("v",), {}, 1)


def _reduction(name: str) -> Signature:
    return Signature(f"{name}(v) or {name}(v, axis=0)", ("v",), {"axis": None}, 1)


#: every function of the language
FUNCTIONS: dict[str, Signature] = {
    **{name: _unary(name) for name in ("sigmoid", "gaussian", "sqrt", "exp", "log", "tanh", "abs")},
    **{name: _reduction(name) for name in ("sum", "prod", "norm", "max", "min")},
    "where": Signature("where(condition, a, b)", ("condition", "a", "b"), {}, 3),
    "outer": Signature("outer(a, b)", ("a", "b"), {}, 2),
    "merge": Signature('merge(v, n, op="+"), or merge(v) over the whole epoch', ("v",), {"n": None, "op": "+"}, 3),
    "until": Signature("until(condition)", ("condition",), {}, 1),
    "uniform": Signature("uniform(low, high, seed=1)", ("low", "high"), {"seed": 1}, 3),
}

#: every step of a fit kernel
FIT_FUNCTIONS: dict[str, Signature] = {
    "window": Signature("window(key, 32)", ("key", "bytes"), {}, 2),
    "rank": Signature("rank(key)", ("key",), {}, 1),
    "slot": Signature("slot(key)", ("key",), {}, 1),
    "least_squares": Signature(
        'least_squares(window(key, 32), target=rank(key), method="gram", incremental=True)',
        ("features", "target"),
        {"method": None, "incremental": None, "bounds": None},
        2,
    ),
}

_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}
_LOGIC_HINT = "join conditions with * (both hold), turn one round with 1 - c; comparisons give 0 or 1"
_OPERATOR_HINTS = {
    "==": "compare with (a <= b) * (a >= b)",
    "!=": "compare with 1 - (a <= b) * (a >= b)",
    "&": _LOGIC_HINT,
    "|": _LOGIC_HINT,
    "^": _LOGIC_HINT,
    "~": _LOGIC_HINT,
}
#: for assignments to elements
ELEMENTS_HINT = "compute a whole new value, for example with where and a vector of zeros and ones"
_WHERE_HINT = "use ps.where(condition, a, b) (as text: where), which computes both sides and picks one"


def bind_arguments(
    builder: GraphBuilder | None,
    name: str,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
    source: str | None = None,
) -> dict[str, Any]:
    """Return the arguments by name, defaults filled in. Raises KernelError (E203)."""
    signature = (FUNCTIONS | FIT_FUNCTIONS)[name]
    names = [*signature.required, *signature.optional]
    usage = f"usage: {signature.usage}"
    if len(args) > signature.positional:
        if name in ("max", "min"):
            sign = ">" if name == "max" else "<"
            usage += f"; for the {'larger' if name == 'max' else 'smaller'} of two values write where(a {sign} b, a, b)"
        raise _error(builder, "E203", f"{name} takes {_arguments(signature.positional)}, not {len(args)}", span, usage, source)
    values = dict(zip(names, args, strict=False))
    for key, value in keywords.items():
        if key not in names:
            raise _error(builder, "E203", f"{name} has no argument {key}", span, usage, source)
        if key in values:
            raise _error(builder, "E203", f"{name} gets its argument {key} twice", span, usage, source)
        values[key] = value
    for key in signature.required:
        if key not in values:
            raise _error(builder, "E203", f"{name} lacks its argument {key}", span, usage, source)
    return {**signature.optional, **values}


def call(builder: GraphBuilder, name: str, args: Sequence[Any], keywords: Mapping[str, Any], span: Span) -> Any:
    """Call a function on values of the kernel and literals. Returns a Ref (`until`: None; `uniform`: Uniform). Raises
    KernelError.
    """
    if name not in builder.functions:
        raise unknown_function(builder, name, span)
    a = bind_arguments(builder, name, args, keywords, span)
    if builder.fits:
        return builder.fit(name, a, span)
    if name in ("sum", "prod", "norm", "max", "min"):
        return builder.reduce(name, a["v"], a["axis"], span)
    if name == "merge":
        return builder.merge(a["v"], a["n"], a["op"], span)
    if name == "until":
        return builder.stop_when(a["condition"], span)
    if name == "uniform":
        return make_uniform(a["low"], a["high"], a["seed"], span, builder.source)
    if name == "outer":
        return builder.outer(a["a"], a["b"], span)
    return builder.elementwise(name, list(a.values()), span)


def operator(builder: GraphBuilder, symbol: str, operands: Sequence[Operand], span: Span) -> Ref:
    """Apply an operator; a `-` or `+` with one operand is the unary one. Raises KernelError (E205 for operators that kernels
    lack).
    """
    builder.computes(span)
    if len(operands) == 1 and symbol in "+-":
        ref = builder.operand(operands[0], span)
        return builder.elementwise("neg", [ref], span) if symbol == "-" else ref
    if symbol in _BINARY:
        return builder.elementwise(_BINARY[symbol], operands, span)
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
        elif number is not None and number > 8 and number == int(number):
            hint = f"multiply powers, as in v ** 8 * v ** {number - 8:g}" if number <= 16 else "use a smaller exponent: powers grow fast"
        elif number == 0:
            hint = "write 1, which it always is"
        raise builder.error("E205", "** takes a constant exponent from 1 to 8, or 0.5", span, hint=hint)
    square, bits = builder.operand(value, span), int(number)
    result: Ref | None = None
    while bits:
        if bits & 1:
            result = square if result is None else builder.elementwise("mul", [result, square], span)
        bits >>= 1
        if bits:
            square = builder.elementwise("mul", [square, square], span)
    assert result is not None
    return result


def index(builder: GraphBuilder, value: Operand, items: Sequence[Any], span: Span) -> Ref:
    """Index by `":"`, `"..."` and None, which puts in a dimension of one. Raises KernelError (E208) for anything else."""
    builder.computes(span)
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
            f"too many indices for a value with {rank} {'dimension' if rank == 1 else 'dimensions'}",
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


def no_operator(builder: GraphBuilder | None, symbol: str, span: Span) -> KernelError:
    """Return the error for an operator that kernels lack."""
    return _error(
        builder,
        "E205",
        f"kernels have no operator {symbol}",
        span,
        _OPERATOR_HINTS.get(symbol, "the operators are + - * / @ ** < > <= >="),
    )


def no_attribute(builder: GraphBuilder, name: str, span: Span) -> KernelError:
    """Return the error for an attribute or method that values of a kernel lack."""
    builder.computes(span)
    hint = f"write ps.{name}(v) (as text: {name}(v))" if name in FUNCTIONS else "only .T, the transpose, is there"
    return builder.error("E215", f"a value of the kernel has no attribute {name}", span, hint=hint)


def control_flow(builder: GraphBuilder | None, what: str, span: Span, source: str | None = None) -> KernelError:
    """Return the error for `what` (`if`, `and`, …) on a value that is known only in hardware."""
    hint = (
        "a fit kernel says what is fitted, the same for every key: leave the condition out"
        if builder is not None and builder.fits
        else _LOGIC_HINT
        if what in ("and", "or", "not")
        else "write (a < b) * (b < c)"
        if what == "a chained comparison"
        else f"write ps.where(a {'>' if what == 'max' else '<'} b, a, b); ps.{what}(v) is over the elements of v"
        if what in ("max", "min")
        else _WHERE_HINT
    )
    shown = what if " " in what or what == "Python" else f"`{what}`"
    if what in ("and", "or", "not", "a chained comparison") and (builder is None or not builder.fits):
        hint += "; ps.where(condition, a, b) picks one of two values"
    return _error(
        builder, "E206", f"{shown} cannot decide on a value that is known only when the hardware runs", span, hint, source
    )


def unknown_name(builder: GraphBuilder, name: str, known: Iterable[str], span: Span) -> KernelError:
    names = [other for other in known if other != name]
    hint = closest(name, names) or f"give it a value first; there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    return builder.error("E201", f"the name {name} is not defined", span, hint=hint)


def unknown_function(builder: GraphBuilder, name: str, span: Span, known: Iterable[str] = ()) -> KernelError:
    if name in FIT_FUNCTIONS and not builder.fits:
        hint = "write @ps.fit above the function (as text: `fit name(key: key)`)"
        return builder.error("E451", f"{name} is a step of a fit kernel, not of one that learns tuple by tuple", span, hint=hint)
    if name in FUNCTIONS and builder.fits:
        hint = f"a fit kernel is one line: {FIT_FUNCTIONS['least_squares'].usage}; what learns tuple by tuple stands under @ps.kernel (as text: `kernel`)"
        return builder.error("E451", f"{name} is no step of a fit kernel", span, hint=hint)
    mine = builder.functions
    return builder.error(
        "E202",
        f"there is no function {name}",
        span,
        hint=f"write ps.{name}" if name in mine else closest(name, [*mine, *known]) or f"the functions are {', '.join(mine)}",
    )


def _error(
    builder: GraphBuilder | None, code: str, message: str, span: Span, hint: str, source: str | None = None
) -> KernelError:

    return error(code, message, span, hint=hint, source=builder.source if builder is not None else source)


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count} arguments"
