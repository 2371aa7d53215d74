"""What `keys`, `values` and `items` of the index return: views in order that also know positions, as SortedDict's do."""

from __future__ import annotations

from collections.abc import (
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Sequence,
    Set,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from .ordered import Ordered

__all__ = ["Items", "Keys", "OrderedSet", "Values"]

T = TypeVar("T", bound=Hashable)


class OrderedSet(Set[T], Sequence[T]):
    """A set that iterates in order, takes positions and does not change: what `&`, `|`, `-` and `^` make of views."""

    __slots__ = ("_members", "_order")

    def __init__(self, members: Iterable[T] = ()) -> None:
        self._members = frozenset(members)
        self._order = sorted(self._members)  # type: ignore[type-var]

    def __contains__(self, value: object) -> bool:
        return value in self._members

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._order)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self._order[at]

    def __hash__(self) -> int:
        return hash(self._members)

    def __repr__(self) -> str:
        return f"OrderedSet({self._order!r})"


def _delete(mapping: Ordered, at: int | slice) -> None:
    """Take out what is at a position or slice. Raises IndexError."""
    for key, _ in mapping.pairs(at) if isinstance(at, slice) else [mapping.peekitem(at)]:
        del mapping[key]


class Keys(KeysView[bytes], Sequence[bytes]):
    """The keys in order: a set, and a sequence by position."""

    _mapping: Ordered

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return (
            [key for key, _ in self._mapping.pairs(at)]
            if isinstance(at, slice)
            else self._mapping.peekitem(at)[0]
        )

    def __delitem__(self, at: int | slice) -> None:
        _delete(self._mapping, at)

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self._mapping)

    def index(self, value: Any, start: int | None = None, stop: int | None = None) -> int:
        if not isinstance(value, bytes):
            raise ValueError(f"{value!r} is not in the index")
        return self._mapping.index(value, start, stop)

    def count(self, value: Any) -> int:
        return int(isinstance(value, bytes) and value in self._mapping)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return OrderedSet(it)


class Items(ItemsView[bytes, Any], Sequence[tuple[bytes, Any]]):  # type: ignore[misc]
    """Pairs of key and value in the order of keys: a set, and a sequence by position."""

    _mapping: Ordered

    @overload
    def __getitem__(self, at: int) -> tuple[bytes, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[bytes, Any]]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self._mapping.pairs(at) if isinstance(at, slice) else self._mapping.peekitem(at)

    def __delitem__(self, at: int | slice) -> None:
        _delete(self._mapping, at)

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        return self._mapping.walk()

    def __reversed__(self) -> Iterator[tuple[bytes, Any]]:
        return self._mapping.walk(reverse=True)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return OrderedSet(it)


class Values(ValuesView[Any], Sequence[Any]):
    """Values in the order of their keys: a sequence by position."""

    _mapping: Ordered

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return (
            [value for _, value in self._mapping.pairs(at)]
            if isinstance(at, slice)
            else self._mapping.peekitem(at)[1]
        )

    def __delitem__(self, at: int | slice) -> None:
        _delete(self._mapping, at)

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.walk())

    def __reversed__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.walk(reverse=True))
