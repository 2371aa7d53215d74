"""A group: sorted keys found by a model, with a buffer for keys that came since it was fitted.

The array's order and positions stay as they are between fits: a deleted key leaves a tombstone in its place, a new key waits in the buffer, and a key
that comes back to its tombstone revives it. So the model's bounds hold from one fit to the next.
"""

from bisect import bisect_left, bisect_right, insort
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from .trainer import Model


class Group:
    """Keys `pivot` <= key < the next group's pivot.

    keys, values: the array, in order; a tombstone has the value None.
    dead: positions of tombstones.
    buffer, waiting: keys that came since the last fit with their values, and their order; none of them is in the array.
    longest: no neighbours of the array share more bytes than this (deletes may leave it too large).
    """

    def __init__(self, pivot: bytes, keys: list[bytes], values: list[Any], longest: int) -> None:
        self.pivot, self.keys = pivot, keys
        self.values, self.longest = values, longest
        self.dead: set[int] = set()
        self.buffer: dict[bytes, Any] = {}
        self.waiting: list[bytes] = []
        self.model: Model | None = None
        self._merged: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.keys) - len(self.dead) + len(self.waiting)

    # one key

    def position(self, key: bytes) -> int:
        """Return where in the array the key is, alive or a tombstone; -1 where it is not. Only the model's window is looked at."""
        model, keys = self.model, self.keys
        assert model is not None
        low, high = model.places(model.guess(key))
        if low < 0:
            low = 0
        if high > len(keys):
            high = len(keys)
        if low < high:
            at = bisect_left(keys, key, low, high)
            if at < high and keys[at] == key:
                return at
        return -1

    def place(self, key: bytes, right: bool = False) -> int:
        """Return how many keys of the array, tombstones included, are less than the key (`right`: or equal).

        The model's window is tried first; where the key does not belong into it, which happens to absent keys alone, the whole array is searched.
        """
        model, keys = self.model, self.keys
        assert model is not None
        low, high = model.places(model.guess(key))
        low, high = max(low, 0), min(high, len(keys))
        find = bisect_right if right else bisect_left
        if (
            low <= high
            and (low == 0 or keys[low - 1] < key)
            and (high == len(keys) or key < keys[high])
        ):
            return find(keys, key, low, high)
        return find(keys, key)

    def positions(self, keys: list[bytes]) -> list[int]:
        """Return `position` of many keys: predictions all at once, then a binary search in each window, in C."""
        model, array = self.model, self.keys
        assert model is not None
        guess, size = model.predict(keys), len(array)
        low, high = guess + model.low, guess + model.high + 1
        if model.slots is not None:
            slots = model.slots.array()
            low, high = np.searchsorted(slots, low), np.searchsorted(slots, high)
        low, high = np.clip(low, 0, size), np.clip(high, 0, size)
        ends = np.maximum(low, high).tolist()
        places = map(bisect_left, repeat(array), keys, low.tolist(), ends)
        return [
            at if at < end and array[at] == key else -1
            for at, end, key in zip(places, ends, keys, strict=True)
        ]

    def get(self, key: bytes, default: Any) -> Any:
        """Return the key's value, or `default`."""
        if key in self.buffer:
            return self.buffer[key]
        at = self.position(key)
        return default if at < 0 or at in self.dead else self.values[at]

    def add(self, key: bytes, value: Any) -> None:
        """Put a key into the buffer that is in neither array nor buffer."""
        self.buffer[key] = value
        insort(self.waiting, key)
        self._merged = None

    def revive(self, at: int, value: Any) -> None:
        """Bring a tombstone's key back."""
        self.dead.discard(at)
        self.values[at] = value
        self._merged = None

    def kill(self, at: int) -> Any:
        """Make the key at this position of the array a tombstone; return its value."""
        value, self.values[at] = self.values[at], None
        self.dead.add(at)
        self._merged = None
        return value

    def drop(self, key: bytes) -> Any:
        """Take a key out of the buffer; return its value."""
        value = self.buffer.pop(key)
        del self.waiting[bisect_left(self.waiting, key)]
        self._merged = None
        return value

    def settle(self, keys: list[bytes], values: list[Any], longest: int, model: Model) -> None:
        """Take a new array and its model; buffer and tombstones are in it."""
        self.keys, self.values = keys, values
        self.longest, self.model = longest, model
        self.dead, self.buffer = set(), {}
        self.waiting, self._merged = [], None

    # all keys

    def live(self) -> list[bytes]:
        """Return the live keys in order. The list is the group's own: not to be changed."""
        if not self.dead and not self.waiting:
            return self.keys
        if self._merged is None:
            alive = [key for at, key in enumerate(self.keys) if at not in self.dead]
            self._merged = sorted(alive + self.waiting) if self.waiting else alive
        return self._merged

    def scan(self, start: bytes, count: int) -> list[tuple[bytes, Any]]:
        """Return the first `count` pairs from `start` on."""
        at, dead, array = self.place(start), self.dead, self.keys
        if not dead and not self.waiting:
            return list(zip(array[at : at + count], self.values[at : at + count], strict=True))
        pairs: list[tuple[bytes, Any]] = []
        while at < len(array) and len(pairs) < count:
            if at not in dead:
                pairs.append((array[at], self.values[at]))
            at += 1
        if self.waiting:
            first = bisect_left(self.waiting, start)
            pairs += [(key, self.buffer[key]) for key in self.waiting[first : first + count]]
            pairs.sort(key=itemgetter(0))
        return pairs[:count]

    def value(self, key: bytes) -> Any:
        """Return the value of a live key."""
        return self.get(key, None)

    def items(self) -> list[tuple[bytes, Any]]:
        """Return the live keys with their values in order."""
        dead, buffer = self.dead, self.buffer
        pairs = list(zip(self.keys, self.values, strict=True))
        if dead:
            pairs = [pair for at, pair in enumerate(pairs) if at not in dead]
        if not buffer:
            return pairs
        pairs += [(key, buffer[key]) for key in self.waiting]
        pairs.sort(key=itemgetter(0))
        return pairs
