"""Values of a kernel while its Python function is traced, and the functions of `penstock` that work on them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from ..dialect import owner
from . import functions
from .builder import GraphBuilder, Ref
from .diagnostics import KernelError, Span, error
from .dims import Shape, show
from .places import caller_span, decisive, iterated, names, says

#: the builder of the kernel that is being traced
current: ContextVar[GraphBuilder | None] = ContextVar("current", default=None)

#: NumPy's operators, which it calls when an array or a NumPy number stands on the left
_UFUNCS = {
    np.add: "+",
    np.subtract: "-",
    np.multiply: "*",
    np.true_divide: "/",
    np.less: "<",
    np.greater: ">",
    np.less_equal: "<=",
    np.greater_equal: ">=",
    np.matmul: "@",
    np.power: "**",
    np.equal: "==",
    np.not_equal: "!=",
    np.remainder: "%",
    np.floor_divide: "//",
    np.bitwise_and: "&",
    np.bitwise_or: "|",
    np.bitwise_xor: "^",
}
_RENAMED = {"absolute": "abs", "fabs": "abs", "amax": "max", "amin": "min"}


def _binary(symbol: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: _operator(symbol, self, other)


def _reflected(symbol: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: _operator(symbol, other, self)


def _in_place(symbol: str) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        leaf = self._builder.leaf(self._ref)
        span = caller_span()
        # `w -= step` looks as if it changed the model; another name for the model may well become something else
        if leaf is not None and leaf[0] == "model" and names(span, leaf[1]):
            hint = f"return the new value, as in `return {leaf[1]} {symbol} ...`"
            raise self._builder.error(
                "E212", f"the model {leaf[1]} cannot be changed in place", span, hint=hint
            )
        return _operator(symbol, self, other)

    return method


_PENSTOCKS = "use the operators and the functions of penstock, such as ps.exp instead of math.exp"


def _to_number(value: Tensor, what: str, hint: str = _PENSTOCKS) -> KernelError:
    return value._builder.error(
        "E209",
        f"{what} needs a number now, but the value is known only when the hardware runs",
        caller_span(),
        hint=hint,
    )


def _no_number(what: str) -> Callable[..., Any]:
    def method(self: Tensor, *_: Any, **__: Any) -> NoReturn:
        raise _to_number(self, what)

    return method


class Tensor:
    """A value of a kernel: a number, vector or matrix that the hardware will compute.

    The operators are `+ - * / @ **` with a constant exponent, unary `-`, and `< > <= >=`, which give 0 or 1; `v[:, None]` and
    `v[None, :]` put in a dimension of one, `m.T` transposes. Shapes broadcast as in NumPy; `len(v)` and `v.shape` are Python's
    numbers.
    """

    __slots__ = ("_builder", "_ref")
    is_kernel_value = True

    def __init__(self, builder: GraphBuilder, ref: Ref) -> None:
        self._builder = builder
        self._ref = ref

    def __hash__(self) -> int:
        """Values are keys of dictionaries; a number that the kernel computes with this would differ from run to run."""
        if current.get() is not None and says(caller_span(), "hash"):
            known = "hash" in self._builder.functions
            raise _to_number(self, "Python's hash", "write ps.hash(i)" if known else _PENSTOCKS)
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"<value of a kernel: {show(self._builder.shape(self._ref))}>"

    # -- operators

    __add__, __radd__ = _binary("+"), _reflected("+")
    __sub__, __rsub__ = _binary("-"), _reflected("-")
    __mul__, __rmul__ = _binary("*"), _reflected("*")
    __truediv__, __rtruediv__ = _binary("/"), _reflected("/")
    __matmul__, __rmatmul__ = _binary("@"), _reflected("@")
    __pow__, __rpow__ = _binary("**"), _reflected("**")
    __lt__ = _binary("<")
    __gt__ = _binary(">")
    __le__ = _binary("<=")
    __ge__ = _binary(">=")

    def __neg__(self) -> Tensor:
        return _operator("-", self)

    def __invert__(self) -> NoReturn:
        raise functions.no_operator(self._builder, "~", caller_span())

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return call("abs", (self,), {})

    def __getitem__(self, item: Any) -> Tensor:
        span = caller_span()
        builder = _builder(span, self)
        indices = item if isinstance(item, tuple) else (item,)
        items = [plain(builder, _index_item(i), span) for i in indices]
        return Tensor(builder, functions.index(builder, self._ref, items, span))

    @property
    def T(self) -> Tensor:
        span = caller_span()
        return Tensor(self._builder, _builder(span, self).transpose(self._ref, span))

    @property
    def shape(self) -> Shape:
        """The sizes of its dimensions; none for a scalar."""
        span = caller_span()
        return functions.shape(_builder(span, self), self._ref, span)

    # -- what hardware values cannot do

    __iadd__ = _in_place("+")
    __isub__ = _in_place("-")
    __imul__ = _in_place("*")
    __itruediv__ = _in_place("/")
    __imatmul__ = _in_place("@")
    __ipow__ = _in_place("**")

    def __setitem__(self, item: Any, value: Any) -> NoReturn:
        raise self._builder.error(
            "E212",
            "elements of a value cannot be assigned",
            caller_span(),
            hint=self._builder.elements_hint,
        )

    def __bool__(self) -> bool:
        span = caller_span()
        raise functions.control_flow(self._builder, *decisive(span))

    def __iter__(self) -> NoReturn:
        raise self._builder.error(
            "E207",
            "a value of the kernel cannot be iterated over",
            iterated(caller_span()),
            hint="operations work on whole vectors; ps.sum, prod, norm, max and min take the place of loops",
        )

    def __len__(self) -> int:
        span = caller_span()
        return functions.length(_builder(span, self), self._ref, span)

    def __contains__(self, item: Any) -> bool:
        raise functions.control_flow(self._builder, "in", caller_span())

    __float__ = _no_number("Python's float")
    __int__ = _no_number("Python's int")
    __index__ = _no_number("a Python index")
    __complex__ = _no_number("Python's complex")
    __round__ = _no_number("Python's round")
    __trunc__ = _no_number("Python's trunc")
    __array__ = _no_number("a NumPy array")

    def __format__(self, spec: str) -> str:
        if spec:
            raise _to_number(self, "formatting")
        return repr(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Tensor:
        if method == "__call__" and not keywords and ufunc in _UFUNCS:
            return _operator(_UFUNCS[ufunc], *inputs)
        raise _numpys(self._builder, ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> NoReturn:
        raise _numpys(self._builder, function.__name__)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._builder.error(
            "E215",
            "a value of the kernel cannot be called",
            caller_span(),
            hint="write * to multiply",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        span = caller_span()
        attribute = _builder(span, self).attribute(self._ref, name, span)
        if attribute is None:
            raise functions.no_attribute(self._builder, name, span)
        return attribute


for _symbol, _name in (
    ("==", "eq"),
    ("!=", "ne"),
    ("%", "mod"),
    ("//", "floordiv"),
    ("&", "and"),
    ("|", "or"),
    ("^", "xor"),
    ("<<", "lshift"),
    (">>", "rshift"),
):  # values lack these; what a dialect has beside them may have some
    setattr(Tensor, f"__{_name}__", _binary(_symbol))
    if _name not in ("eq", "ne"):
        setattr(Tensor, f"__r{_name}__", _reflected(_symbol))


def _index_item(item: Any) -> Any:
    if isinstance(item, slice):
        return ":" if item == slice(None) else "a slice with limits"
    if item is Ellipsis:
        return "..."
    return f"the text {item!r}" if isinstance(item, str) else item


def _numpys(builder: GraphBuilder, name: str) -> KernelError:
    ours = _RENAMED.get(name, name)
    hint = (
        f"use ps.{ours}"
        if ours in builder.functions
        else builder.dialect.words.instead.get(ours)
        or f"the functions are {', '.join(builder.functions)}"
    )
    return builder.error(
        "E210", f"NumPy's {name} does not work on a value of the kernel", caller_span(), hint=hint
    )


def _builder(span: Span, *values: Any) -> GraphBuilder:
    """The builder of the kernel being traced; all values must be its own."""
    builder = current.get()
    for value in values:
        if isinstance(value, Tensor) and value._builder is not builder:
            raise error(
                "E214",
                "this value belongs to another kernel, or to an earlier trace of this one",
                span,
                source=None,
                hint="values live only inside the kernel's function: do not keep them in globals",
            )
    if builder is None:
        raise error(
            "E214",
            "operations of kernels work only inside a kernel's function",
            span,
            hint="call it in a function with the decorator @ps.kernel",
        )
    return builder


def plain(builder: GraphBuilder, value: Any, span: Span) -> Any:
    """Return what the builder takes for a Python value. Raises KernelError (E214)."""
    if isinstance(value, Tensor):
        _builder(span, value)
        return value._ref
    return value


def _operator(symbol: str, *operands: Any) -> Tensor:
    span = caller_span()
    builder = _builder(span, *operands)
    return Tensor(
        builder,
        functions.operator(
            builder, symbol, [plain(builder, value, span) for value in operands], span
        ),
    )


def call(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a function of kernels by name, on `Tensor`s and Python values. Raises KernelError."""
    span = caller_span()
    dialect = owner(name)
    if dialect is not None and (called := dialect.functions[name]).literal:
        return called.apply(None, span, **functions.bind_arguments(called, args, keywords, span))
    builder = _builder(span, *args, *keywords.values())
    result = functions.call(
        builder,
        name,
        [plain(builder, value, span) for value in args],
        {key: plain(builder, value, span) for key, value in keywords.items()},
        span,
    )
    return Tensor(builder, result) if isinstance(result, Ref) else result
