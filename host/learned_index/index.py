"""The learned index: an ordered map from byte strings to values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from os import PathLike
from time import perf_counter
from typing import Any

import numpy as np

from ...models.qr.job import Window
from . import snapshot
from .group import Group
from .layout import Layout, Statistics
from .ordered import Ordered
from .root import Root
from .trainer import Change, Model, Trainer
from .windows import common, common_prefixes, cut, window_of

_ABSENT: Any = object()
#: pivot, keys and values of a group to be
_Part = tuple[bytes, list[bytes], list[Any]]


@dataclass
class _Plan:
    """A group's next array and, where the old model's memo can be used, what changed."""

    group: Group
    keys: list[bytes]
    values: list[Any]
    longest: int
    change: Change
    model: Model | None = field(default=None)

    @property
    def fitted(self) -> Model:
        assert self.model is not None
        return self.model


class LearnedIndex(Ordered):
    """An ordered map from byte strings of any length to values; calls and results are those of `sortedcontainers.SortedDict`, except for what
    docs/reference/learned_index.md names.

    Keys are found by fitted models over groups of neighbouring keys (docs/reference/learned_index.md). Every live key is found, whatever was put in or taken
    out before: each model's window comes from the greatest errors over the group's keys, computed with the arithmetic of the lookup.
    Not for several threads at once.

    Args:
        items: a mapping or pairs; the last value of a key counts.
        trainer: fits the models; `Trainer()` is the golden model.
        layout: grouping and when to fit.
        deferred: leave groups that are due to be fitted until `retrain` is called, which hands them to the trainer together. Keys are found all the
            same; their buffers grow.

    Raises TypeError for a key that is not bytes.
    """

    def __init__(
        self,
        items: Mapping[bytes, Any] | Iterable[tuple[bytes, Any]] = (),
        *,
        trainer: Trainer | None = None,
        layout: Layout | None = None,
        deferred: bool = False,
    ) -> None:
        self.trainer = trainer if trainer is not None else Trainer()
        self.layout = layout if layout is not None else Layout()
        self.deferred = deferred
        self.statistics = Statistics()
        self._load(dict(items))

    # whole index

    def _load(self, items: dict[bytes, Any]) -> None:
        """Replace everything by these items."""
        for key in items:
            if not isinstance(key, bytes):
                raise TypeError(f"keys of a learned index are bytes, not {type(key).__name__}")
        keys = sorted(items)
        prefixes, layout = common_prefixes(keys), self.layout
        starts = cut(
            prefixes,
            smallest=layout.smallest,
            forward=layout.forward,
            backward=layout.backward,
            bytes_=layout.window,
            largest=layout.largest // 2,
        )
        pivots = [keys[begin] for begin in starts] or [b""]
        ends = [*starts[1:], len(keys)]
        parts = [
            (pivot, keys[begin:end], [items[key] for key in keys[begin:end]])
            for pivot, begin, end in zip(pivots, starts or [0], ends, strict=True)
        ]
        self._install(self._groups_of(parts, [], True, self.trainer.build))

    def _groups_of(
        self, parts: list[_Part], after: list[bytes], first: bool, build: Callable[[Any], Any]
    ) -> list[Group]:
        """Return groups that are fitted to all of their keys. `after`: the pivot behind them, if there is one; `first`: they begin with the index's first."""
        groups, jobs = [], []
        following = [pivot for pivot, _, _ in parts[1:]] + after
        for number, (pivot, keys, values) in enumerate(parts):
            prefixes = common_prefixes(keys)[1:].tolist()
            group = Group(pivot, keys, values, max(prefixes, default=0))
            behind, begins = following[number : number + 1], first and not number
            jobs.append((keys, self._window(group, min(prefixes, default=0), behind, begins)))
            groups.append(group)
        for group, model in zip(groups, build(jobs), strict=True):
            group.model = model
        return groups

    def _window(self, group: Group, least: int, following: list[bytes], first: bool) -> Window:
        """Return the byte window for a group whose neighbours share at least `least` bytes; `following` holds the next group's pivot, if there is one."""
        around = common(group.pivot, following[0]) if following and not first else -1
        return window_of(least, group.longest, around, self.trainer.longest)

    def _install(self, groups: list[Group]) -> None:
        self._groups = groups
        self._sizes = [len(group) for group in groups]
        self._length = sum(self._sizes)
        self._sums: list[int] | None = None
        self._pending: dict[Group, None] = {}
        self._root = Root([group.pivot for group in groups], self.trainer)

    def clear(self) -> None:
        """Take everything out."""
        self._load({})

    def clear_statistics(self) -> None:
        """Begin to count anew."""
        self.statistics = Statistics()

    def copy(self) -> LearnedIndex:
        """Return an index of the same items, fitted anew."""
        return self._like(self)

    def _like(self, items: Mapping[bytes, Any]) -> LearnedIndex:
        return type(self)(items, trainer=self.trainer, layout=self.layout, deferred=self.deferred)

    __copy__ = copy

    @classmethod
    def fromkeys(cls, iterable: Iterable[bytes], value: Any = None) -> LearnedIndex:
        """Return an index of these keys, all with one value."""
        return cls((key, value) for key in iterable)

    def __len__(self) -> int:
        return self._length

    # one key

    def get(self, key: bytes, default: Any = None) -> Any:
        """Return the key's value, or `default`."""
        if not isinstance(key, bytes):
            hash(key)  # a list is a TypeError, as with a dict
            return default
        return self._groups[self._root.find(key)].get(key, default)

    def __getitem__(self, key: bytes) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    def put(self, key: bytes, value: Any) -> None:
        """Set the key's value."""
        if not isinstance(key, bytes):
            raise TypeError(f"keys of a learned index are bytes, not {type(key).__name__}")
        slot = self._root.find(key)
        group = self._groups[slot]
        if key in group.buffer:
            group.buffer[key] = value
            return
        at = group.position(key)
        if at >= 0:
            if at not in group.dead:
                group.values[at] = value
                return
            group.revive(at, value)
        else:
            group.add(key, value)
        self._sizes[slot] += 1
        self._length += 1
        self._sums = None
        if len(group.waiting) >= self.layout.buffer:
            self._due(group)

    __setitem__ = put

    def delete(self, key: bytes) -> Any:
        """Take the key out and return its value. Raises KeyError where it is not there."""
        if not isinstance(key, bytes):
            hash(key)
            raise KeyError(key)
        slot = self._root.find(key)
        group = self._groups[slot]
        if key in group.buffer:
            value = group.drop(key)
        else:
            at = group.position(key)
            if at < 0 or at in group.dead:
                raise KeyError(key)
            value = group.kill(at)
        self._sizes[slot] -= 1
        self._length -= 1
        self._sums = None
        if len(group.dead) >= max(self.layout.buffer, self.layout.tombstones * len(group.keys)):
            self._due(group)
        return value

    def __delitem__(self, key: bytes) -> None:
        self.delete(key)

    # many keys

    def get_many(self, keys: Iterable[bytes], default: Any = None) -> list[Any]:
        """Return the values of many keys in their order, `default` for absent keys; quicker than `get` one by one for many."""
        wanted = list(keys)
        slots = self._root.find_many(wanted)
        order = np.argsort(slots, kind="stable")
        bounds = np.flatnonzero(np.diff(slots[order])) + 1
        answers: list[Any] = [default] * len(wanted)
        for part in np.split(order, bounds) if len(wanted) else ():
            group = self._groups[slots[part[0]]]
            chosen = part.tolist()
            if len(chosen) < 8:  # not worth the arrays
                for i in chosen:
                    answers[i] = group.get(wanted[i], default)
                continue
            asked = [wanted[i] for i in chosen]
            places = group.positions(asked)
            values, dead, buffer = group.values, group.dead, group.buffer
            for i, at, key in zip(chosen, places, asked, strict=True):
                if at >= 0:
                    if at not in dead:
                        answers[i] = values[at]
                elif key in buffer:
                    answers[i] = buffer[key]
        return answers

    def update(self, items: Mapping[bytes, Any] | Iterable[tuple[bytes, Any]] = ()) -> None:  # type: ignore[override]
        """Put many items in. Where they are many beside the items that the index has, all are loaded anew."""
        new = dict(items)
        if len(new) * 4 > self._length:
            pairs = dict(self.walk())
            pairs.update(new)
            self._load(pairs)
        else:
            for key, value in new.items():
                self.put(key, value)

    # models

    def retrain(self, every: bool = False) -> int:
        """Fit the groups that are due, or with `every` all that have changed, in one submission to the trainer; return how many.

        Raises what the trainer raises; the old models then still serve, and nothing is lost.
        """
        groups = (
            [group for group in self._groups if group.waiting or group.dead]
            if every
            else list(self._pending)
        )
        self._fit(groups)
        return len(groups)

    @property
    def due(self) -> int:
        """Number of groups that wait for `retrain`."""
        return len(self._pending)

    def _due(self, group: Group) -> None:
        self._pending[group] = None
        if not self.deferred:
            self._fit([group])

    def _fit(self, groups: list[Group]) -> None:
        begin = perf_counter()
        plans = [self._plan(group) for group in groups]
        for plan, model in zip(
            plans, self._timed(self.trainer.refit, [plan.change for plan in plans]), strict=True
        ):
            plan.model = model
        counts = self.statistics
        counts.refits += len(plans)
        counts.changed += sum(len(plan.change.added) + len(plan.change.removed) for plan in plans)
        counts.rows += sum(len(plan.keys) for plan in plans)
        self._fit_again([plan for plan in plans if plan.fitted.span > self.layout.span])
        # only now is anything changed: a trainer that fails leaves all as it was
        for plan in plans:
            plan.group.settle(plan.keys, plan.values, plan.longest, plan.fitted)
            self._pending.pop(plan.group, None)
        for plan in plans:
            self._reshape(plan.group)
        counts.seconds += perf_counter() - begin

    def _fit_again(self, plans: list[_Plan]) -> None:
        """Fit models that span too much in the byte windows that their keys need today; where no keys are left, with bounds that begin anew."""
        again = []
        for plan in plans:
            window, pivot = plan.fitted.window, plan.group.pivot
            if plan.keys:
                slot = self._root.find(pivot)
                following = [group.pivot for group in self._groups[slot + 1 : slot + 2]]
                bare, least = (
                    Group(pivot, [], [], plan.longest),
                    common(plan.keys[0], plan.keys[-1]),
                )
                window = self._window(bare, least, following, slot == 0)
            if not plan.keys or window != plan.fitted.window:
                again.append((plan, window))
        models = self._build([(plan.keys, window) for plan, window in again])
        for (plan, _), model in zip(again, models, strict=True):
            plan.model = model

    def _timed(self, call: Any, arguments: Any) -> Any:
        begin = perf_counter()
        result = call(arguments)
        self.statistics.fitting += perf_counter() - begin
        return result

    def _build(self, parts: list[Any]) -> list[Model]:
        if not parts:
            return []
        self.statistics.builds += len(parts)
        self.statistics.rows += sum(len(keys) for keys, _ in parts)
        return self._timed(self.trainer.build, parts)

    def _plan(self, group: Group) -> _Plan:
        """Merge a group's array with its buffer, without its tombstones."""
        assert group.model is not None
        old, dead, waiting = group.keys, group.dead, group.waiting
        alive = [at for at in range(len(old)) if at not in dead]
        keys, values = [old[at] for at in alive], [group.values[at] for at in alive]
        longest = group.longest if keys else 0
        added = [bisect_left(keys, key) + shift for shift, key in enumerate(waiting)]
        for key, at in zip(waiting, added, strict=True):
            keys.insert(at, key)
            values.insert(at, group.buffer[key])
        for at in added:
            around = keys[max(at - 1, 0) : at + 2]
            longest = max(longest, *(common(a, b) for a, b in pairwise(around)), 0)
        change = Change(group.model, keys, added, [old[at] for at in sorted(dead)])
        return _Plan(group, keys, values, longest, change)

    def _reshape(self, group: Group) -> None:
        """Split a group that is too large or too badly fitted, join one that is too small."""
        layout, size = self.layout, len(group.keys)
        slot = self._root.find(group.pivot)
        if self._groups[slot] is not group:  # joined to a neighbour meanwhile
            return
        assert group.model is not None
        if size > layout.largest or (
            group.model.span > layout.span and size >= 2 * layout.smallest
        ):
            self._replace(
                slot,
                1,
                [
                    (group.pivot, group.keys[: size // 2], group.values[: size // 2]),
                    (group.keys[size // 2], group.keys[size // 2 :], group.values[size // 2 :]),
                ],
            )
            self.statistics.splits += 1
        elif size < layout.crumbs and len(self._groups) > 1:
            first = slot if slot + 1 < len(self._groups) else slot - 1
            a, b = self._groups[first], self._groups[first + 1]
            if len(a) + len(b) <= layout.largest:
                pairs = a.items() + b.items()
                self._replace(
                    first, 2, [(a.pivot, [key for key, _ in pairs], [value for _, value in pairs])]
                )
                self.statistics.joins += 1

    def _replace(self, first: int, count: int, parts: list[_Part]) -> None:
        """Put new groups, fitted to all of their keys, in the place of `count` groups."""
        # keys below the first pivot are the first group's: its pivot must stay the least
        if first == 0 and parts[0][1]:
            parts[0] = (min(parts[0][0], parts[0][1][0]), *parts[0][1:])
        after = [group.pivot for group in self._groups[first + count : first + count + 1]]
        groups = self._groups_of(parts, after, first == 0, self._build)
        for old in self._groups[first : first + count]:
            self._pending.pop(old, None)
        self._groups[first : first + count] = groups
        self._sizes[first : first + count] = [len(group) for group in groups]
        self._sums = None
        for _ in range(count - 1):
            self._root.remove(first + 1)
        self._root.pivots[first] = groups[0].pivot
        for at, group in enumerate(groups[1:], first + 1):
            self._root.insert(at, group.pivot)

    # positions

    def _cumulated(self) -> list[int]:
        if self._sums is None:
            self._sums = list(accumulate(self._sizes, initial=0))
        return self._sums

    # files

    def save(self, path: str | PathLike[str], encode: Callable[[Any], bytes] | None = None) -> None:
        """Write a snapshot, in the place of a file that may be there. See `snapshot.save`."""
        snapshot.save(self, path, encode)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        trainer: Trainer | None = None,
        decode: Callable[[bytes], Any] | None = None,
    ) -> LearnedIndex:
        """Read a snapshot. See `snapshot.load`."""
        index = cls.__new__(cls)
        snapshot.load(index, path, trainer, decode)
        return index
