"""What `keys`, `values` and `items` of the index return: views in order that also know positions, as SortedDict's do."""

from __future__ import annotations

from abc import abstractmethod
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
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from .ordered import Ordered

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")


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


class _Placed(Generic[V]):
    """What views have at positions."""

    _mapping: Ordered

    @staticmethod
    @abstractmethod
    def _of(pair: tuple[bytes, Any]) -> V:
        """Return what the view shows of a pair of key and value."""

    @overload
    def __getitem__(self, at: int) -> V: ...
    @overload
    def __getitem__(self, at: slice) -> list[V]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self._of(pair) for pair in self._mapping.pairs(at)]
        return self._of(self._mapping.peekitem(at))

    def __delitem__(self, at: int | slice) -> None:
        pairs = self._mapping.pairs(at) if isinstance(at, slice) else [self._mapping.peekitem(at)]
        for key, _ in pairs:
            del self._mapping[key]

    def __iter__(self) -> Iterator[V]:
        return map(self._of, self._mapping.walk())

    def __reversed__(self) -> Iterator[V]:
        return map(self._of, self._mapping.walk(reverse=True))

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return OrderedSet(it)


class Keys(_Placed[bytes], KeysView[bytes], Sequence[bytes]):
    """The keys in order: a set, and a sequence by position."""

    @staticmethod
    def _of(pair: tuple[bytes, Any]) -> bytes:
        return pair[0]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._mapping)

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self._mapping)

    def index(self, value: Any, start: int | None = None, stop: int | None = None) -> int:
        if not isinstance(value, bytes):
            raise ValueError(f"{value!r} is not in the index")
        return self._mapping.index(value, start, stop)

    def count(self, value: Any) -> int:
        return int(isinstance(value, bytes) and value in self._mapping)


class Items(_Placed[tuple[bytes, Any]], ItemsView[bytes, Any], Sequence[tuple[bytes, Any]]):  # type: ignore[misc]
    """Pairs of key and value in the order of keys: a set, and a sequence by position."""

    @staticmethod
    def _of(pair: tuple[bytes, Any]) -> tuple[bytes, Any]:
        return pair


class Values(_Placed[Any], ValuesView[Any], Sequence[Any]):
    """Values in the order of their keys: a sequence by position."""

    @staticmethod
    def _of(pair: tuple[bytes, Any]) -> Any:
        return pair[1]
