"""`E.at[i].add(v)`: how Python functions of kernels change rows of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..core.builder import Ref
from ..core.places import caller_span
from ..core.tensor import Tensor, plain
from .integers import CHANGES

if TYPE_CHECKING:
    from .indexed import IndexedBuilder


class At:
    """A model whose rows are chosen by `[i]`."""

    is_kernel_value = True
    spoken = "a model's .at"

    def __init__(self, builder: IndexedBuilder, ref: Ref) -> None:
        self._builder, self._ref = builder, ref

    def __getitem__(self, items: Any) -> Rows:
        return Rows(self._builder, self._ref, items if isinstance(items, tuple) else (items,))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._builder.no_change(caller_span(), "at chooses rows by an index: at[i]")

    def __setitem__(self, items: Any, value: Any) -> NoReturn:
        raise self._builder.no_change(caller_span(), "rows cannot be assigned in place")


class Rows:
    """Rows of a model, to be changed by `add`, `subtract`, `max`, `min` or `set`."""

    is_kernel_value = True
    spoken = "a choice of rows"

    def __init__(self, builder: IndexedBuilder, ref: Ref, items: tuple[Any, ...]) -> None:
        self._builder, self._ref, self._items = builder, ref, items

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in CHANGES:
            raise self._builder.no_change(caller_span(), f"rows have no change {name}")
        return lambda *values, **named: self._change(name, values, named)

    def _in_place(self, other: Any) -> NoReturn:
        raise self._builder.no_change(caller_span(), "rows cannot be changed in place")

    __iadd__ = __isub__ = _in_place
    __imul__ = __itruediv__ = _in_place

    def _change(self, name: str, values: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
        span, builder = caller_span(), self._builder
        if named:
            raise builder.no_change(span, f"{name} has no argument {next(iter(named))}")
        if len(values) != 1:
            raise builder.no_change(span, f"{name} takes 1 argument, not {len(values)}")
        items = [plain(builder, item, span) for item in self._items]
        ref = builder.change(name, self._ref, items, plain(builder, values[0], span), span)
        return Tensor(builder, ref)
