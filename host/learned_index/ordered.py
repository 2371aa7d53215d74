"""The part of the index that is about order: iteration, ranges, positions, ends, and what follows from them."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from .views import Items, Keys, Values

if TYPE_CHECKING:
    from .group import Group
    from .root import Root

_ABSENT: Any = object()


class Ordered(MutableMapping[bytes, Any]):
    """Calls on groups in order; positions count live keys from 0, negative ones from the end."""

    _groups: list[Group]
    _root: Root
    _length: int

    @abstractmethod
    def _cumulated(self) -> list[int]:
        """Return how many keys lie before each group, and in all."""

    @abstractmethod
    def _like(self, items: Mapping[bytes, Any]) -> Any:
        """Return a map of these items that is made as this one."""

    # iteration

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(group.live() for group in self._groups)

    def __reversed__(self) -> Iterator[bytes]:
        return chain.from_iterable(reversed(group.live()) for group in reversed(self._groups))

    def walk(self, reverse: bool = False) -> Iterator[tuple[bytes, Any]]:
        """Yield pairs of key and value in order."""
        if reverse:
            return chain.from_iterable(reversed(group.items()) for group in reversed(self._groups))
        return chain.from_iterable(group.items() for group in self._groups)

    def keys(self) -> Keys:
        """Return a view of the keys in order, which also takes positions."""
        return Keys(self)

    def values(self) -> Values:
        """Return a view of the values in the order of keys, which also takes positions."""
        return Values(self)

    def items(self) -> Items:
        """Return a view of pairs in the order of keys, which also takes positions."""
        return Items(self)

    # positions

    def _rank(self, key: bytes, right: bool) -> int:
        """Return how many live keys are less than the key (`right`: or equal)."""
        slot = self._root.find(key)
        return self._cumulated()[slot] + self._inside(self._groups[slot], key, right)

    @staticmethod
    def _inside(group: Group, key: bytes, right: bool) -> int:
        find = bisect_right if right else bisect_left
        if group.dead or group.waiting:
            return find(group.live(), key)
        return group.place(key, right)

    def bisect_left(self, key: bytes) -> int:
        """Return how many keys are less than the key."""
        return self._rank(key, False)

    def bisect_right(self, key: bytes) -> int:
        """Return how many keys are less than the key or equal."""
        return self._rank(key, True)

    bisect = bisect_right

    def index(self, key: bytes, start: int | None = None, stop: int | None = None) -> int:
        """Return the key's position, between start and stop where given. Raises ValueError where it is not there, TypeError for a key that is not bytes."""
        begin, end, _ = slice(start, stop).indices(self._length)
        if begin < end and not isinstance(key, bytes):
            raise TypeError(f"keys of a learned index are bytes, not {type(key).__name__}")
        if key in self:
            at = self._rank(key, False)
            if begin <= at < end:
                return at
        raise ValueError(f"{key!r} is not in the index")

    def _locate(self, at: int) -> tuple[Group, bytes]:
        """Return the group and the key at a position. Raises IndexError."""
        if not -self._length <= at < self._length:
            raise IndexError(f"position {at} of an index of {self._length} keys")
        if at == -1 or at == 0:  # the ends need no sums
            group = next(
                group for group in (reversed(self._groups) if at else self._groups) if len(group)
            )
            return group, group.live()[at]
        at %= self._length
        sums = self._cumulated()
        slot = bisect_right(sums, at) - 1
        group = self._groups[slot]
        return group, group.live()[at - sums[slot]]

    def peekitem(self, index: int = -1) -> tuple[bytes, Any]:
        """Return key and value at a position, by default the last. Raises IndexError."""
        group, key = self._locate(index)
        return key, group.value(key)

    def pairs(self, part: slice) -> list[tuple[bytes, Any]]:
        """Return the pairs at a slice of positions."""
        start, stop, step = part.indices(self._length)
        at = range(start, stop, step)
        if not at:
            return []
        if step < 0:
            at = at[::-1]
        pairs = list(islice(self._from(at[0]), 0, at[-1] - at[0] + 1, abs(step)))
        return pairs[::-1] if step < 0 else pairs

    def _from(self, at: int) -> Iterator[tuple[bytes, Any]]:
        sums = self._cumulated()
        slot = bisect_right(sums, at) - 1
        return chain(
            self._groups[slot].items()[at - sums[slot] :],
            chain.from_iterable(group.items() for group in self._groups[slot + 1 :]),
        )

    # ranges

    def islice(
        self, start: int | None = None, stop: int | None = None, reverse: bool = False
    ) -> Iterator[bytes]:
        """Yield the keys at positions start … stop - 1 in order, or in reverse order."""
        begin, end, _ = slice(start, stop).indices(self._length)
        if begin >= end:
            return iter(())
        sums = self._cumulated()
        first, last = bisect_right(sums, begin) - 1, bisect_right(sums, end - 1) - 1
        return self._between(first, begin - sums[first], last, end - sums[last], reverse)

    def irange(
        self,
        minimum: bytes | None = None,
        maximum: bytes | None = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[bytes]:
        """Yield the keys from minimum to maximum (None: without limit) in order, or in reverse order; `inclusive` says which ends belong to it."""
        if minimum is None:
            first, begin = 0, 0
        else:
            first = self._root.find(minimum)
            begin = self._inside(self._groups[first], minimum, not inclusive[0])
        if maximum is None:
            last = len(self._groups) - 1
            end = len(self._groups[last])
        else:
            last = self._root.find(maximum)
            end = self._inside(self._groups[last], maximum, inclusive[1])
        if (first, begin) >= (last, end):
            return iter(())
        return self._between(first, begin, last, end, reverse)

    def range(
        self, minimum: bytes | None = None, maximum: bytes | None = None
    ) -> Iterator[tuple[bytes, Any]]:
        """Yield pairs of key and value with minimum <= key < maximum (None: without limit), in order."""
        return ((key, self[key]) for key in self.irange(minimum, maximum, (True, False)))

    def scan(self, start: bytes, count: int) -> list[tuple[bytes, Any]]:
        """Return the first `count` pairs from the key `start` on."""
        slot = self._root.find(start)
        pairs: list[tuple[bytes, Any]] = []
        while len(pairs) < count and slot < len(self._groups):
            pairs += self._groups[slot].scan(start, count - len(pairs))
            slot += 1
        return pairs

    def _between(
        self, first: int, begin: int, last: int, end: int, reverse: bool
    ) -> Iterator[bytes]:
        slots = range(first, last + 1)
        for slot in reversed(slots) if reverse else slots:
            until = end if slot == last else None
            part = self._groups[slot].live()[begin if slot == first else 0 : until]
            yield from reversed(part) if reverse else part

    # taking and giving

    def pop(self, key: bytes, default: Any = _ABSENT) -> Any:
        """Take the key out and return its value, or `default` where it is not there; raises KeyError without one."""
        if key in self:
            value = self[key]
            del self[key]
            return value
        if default is _ABSENT:
            raise KeyError(key)
        return default

    def popitem(self, index: int = -1) -> tuple[bytes, Any]:
        """Take out and return key and value at a position, by default the last. Raises KeyError where the index is empty, IndexError beyond its ends."""
        if not self._length:
            raise KeyError("popitem(): the index is empty")
        pair = self.peekitem(index)
        del self[pair[0]]
        return pair

    def setdefault(self, key: bytes, default: Any = None) -> Any:
        """Return the key's value; where it is not there, put `default` and return it."""
        if key in self:
            return self[key]
        self[key] = default
        return default

    # with other maps

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._length == len(other) and all(
            key in other and other[key] == value for key, value in self.walk()
        )

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Mapping[bytes, Any]) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._like({**dict(self.walk()), **other})

    def __ror__(self, other: Mapping[bytes, Any]) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._like({**other, **dict(self.walk())})

    def __ior__(self, other: Mapping[bytes, Any]) -> Any:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({{{', '.join(f'{key!r}: {value!r}' for key, value in self.walk())}}})"
