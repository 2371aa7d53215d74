"""What `keys`, `values` and `items` of the index return: views in order that also know positions, as SortedDict's do."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from .index import LearnedIndex

__all__ = ["Items", "Keys", "Values"]


class Keys(KeysView[bytes], Sequence[bytes]):
    """The keys in order: a set, and a sequence by position."""

    _mapping: LearnedIndex

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return [key for key, _ in self._mapping.pairs(at)] if isinstance(at, slice) else self._mapping.peekitem(at)[0]

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self._mapping)

    def index(self, value: Any, start: int | None = None, stop: int | None = None) -> int:
        return self._mapping.index(value, start, stop)

    def count(self, value: Any) -> int:
        return int(value in self._mapping)

    @classmethod
    def _from_iterable(cls, it: Any) -> Any:
        return set(it)


class Items(ItemsView[bytes, Any], Sequence[tuple[bytes, Any]]):      # type: ignore[misc]
    """Pairs of key and value in the order of keys: a set, and a sequence by position."""

    _mapping: LearnedIndex

    @overload
    def __getitem__(self, at: int) -> tuple[bytes, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[bytes, Any]]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self._mapping.pairs(at) if isinstance(at, slice) else self._mapping.peekitem(at)

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        return self._mapping.walk()

    def __reversed__(self) -> Iterator[tuple[bytes, Any]]:
        return self._mapping.walk(reverse=True)

    @classmethod
    def _from_iterable(cls, it: Any) -> Any:
        return set(it)


class Values(ValuesView[Any], Sequence[Any]):
    """Values in the order of their keys: a sequence by position."""

    _mapping: LearnedIndex

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return [value for _, value in self._mapping.pairs(at)] if isinstance(at, slice) else self._mapping.peekitem(at)[1]

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.walk())

    def __reversed__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.walk(reverse=True))
