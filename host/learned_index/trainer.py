"""Models of groups, and the trainer that has them fitted by a backend of the qr engine.

A trainer turns groups into jobs of `models.qr` and fits into models. A backend is a callable that takes jobs and returns for each, in order,
its fit or what was wrong with it: the golden model here, or simulated or real hardware, which take the same jobs.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import mul

import numpy as np

from ...models.errors import Error, HardwareError
from ...models.qr.config import FitPlan
from ...models.qr.golden import refit
from ...models.qr.job import Fit, Job, Label, Method, Window
from ...models.qr.shell import FitError
from .slots import DENSITY, Slots
from .windows import common, features

#: jobs -> a fit or an error for each, in order
Backend = Callable[[Sequence[Job]], Sequence[Fit | HardwareError]]
#: deletes are exact
_CONFIG = FitPlan(n_max=64, method=Method.GRAM)

#: what seven roundings to float32 can add, as a part of the sum of |products|, twice over
_ROUNDING = 2.0**-20


class Model:
    """A fitted group: where to look for a key.

    A key of the group lies at one of the positions predict(key) + low … predict(key) + high, and of guess(key) + near … guess(key) + far.

    `predict` is the engine's arithmetic, under which the backend took low and high over all keys of the group. `guess` adds the same products up in double
    precision, several times faster for one key. With S = sum of |weight| · 255 and |bias|, a score of `predict` is off the exact sum by less than 2**-21 · S
    (a product and at most six levels of sums are rounded, each to 2**-24), that of `guess` by far less; truncated, the two are no more than
    floor(2**-20 · S) + 1 apart, and near, far are so much wider than low, high.

    slots: of the array that was fitted, where positions are slots of an array with gaps (target `slot`); else None, and positions are places.
    """

    def __init__(self, fit: Fit, slots: Slots | None = None) -> None:
        self.fit, self.slots = fit, slots
        self.low, self.high = int(fit.err_min), int(fit.err_max)
        self._begin = fit.memo.window.prefix
        self._end = fit.memo.window.prefix + fit.memo.window.length
        bias, *self._weights = fit.values.tolist()
        self._bias = bias - sum(map(mul, self._weights, fit.memo.offsets.tolist()))
        most = abs(bias) + 255.0 * sum(map(abs, self._weights))
        self._plain = most < 2.0**30  # neither path clamps or overflows then
        margin = int(_ROUNDING * most) + 1 if self._plain else 0
        self.near, self.far = self.low - margin, self.high + margin

    @property
    def window(self) -> Window:
        """The bytes that the model looks at."""
        return self.fit.memo.window

    @property
    def span(self) -> int:
        """How many places a lookup has to search (with slots: about)."""
        span = max(self.high - self.low + 1, 0)
        if self.slots is None or not self.slots.of:
            return span
        return -(-span * len(self.slots.of) // (self.slots.of[-1] + 1))

    def labels(self, count: int) -> np.ndarray:
        """Return the positions of the fitted array's `count` keys, int64[count]: their slots, or their places."""
        return np.arange(count) if self.slots is None else self.slots.array()

    def places(self, guess: int) -> tuple[int, int]:
        """Return from which place of the array to before which one the key with this `guess` may be."""
        low, high = guess + self.near, guess + self.far + 1
        return (low, high) if self.slots is None else self.slots.range(low, high)

    def guess(self, key: bytes) -> int:
        """Return about where the key is. A key that ends inside the window counts as filled with zeros."""
        if self._plain:
            score = sum(map(mul, self._weights, key[self._begin : self._end]), self._bias)
            return int(score) if score > 0 else 0
        return int(self.predict([key])[0])

    def predict(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return the predicted positions of keys, int64[len(keys)], by the engine's arithmetic."""
        return self.fit.predict(features(keys, self.window))


@dataclass(frozen=True)
class Change:
    """What became of a group since its model was fitted."""

    model: Model
    keys: list[bytes]  #: the live keys now, in order
    added: list[int] = field(default_factory=list)  #: positions of those that are new, ascending
    removed: list[bytes] = field(default_factory=list)  #: keys that are gone, in order


class TrainingError(Error, RuntimeError):
    """A backend did not do a job. The index is as before: keys that were put are in it, the old models serve. `error` is what the backend reported."""

    def __init__(self, error: HardwareError) -> None:
        super().__init__(f"the model was not fitted: {error}")
        self.error = error


class Trainer:
    """Has models fitted.

    Args:
        config: the engine: method, target and the greatest number of columns, which limits byte windows.
        backend: does the jobs; without one the golden model does.
        limit: target `slot`: the widest window that is published without a pass over all rows.
        longest: bytes of a window; as many as the engine takes, unless given.
    """

    def __init__(
        self,
        config: FitPlan = _CONFIG,
        backend: Backend | None = None,
        *,
        limit: int = 256,
        longest: int | None = None,
    ) -> None:
        if not isinstance(limit, (int, np.integer)):
            raise TypeError(f"a trainer's limit is an integer, not {limit!r}")
        if limit < 0:
            raise ValueError(f"a trainer's limit is at least 0, not {limit}")
        self.config = config
        self.backend: Backend = backend if backend is not None else golden(config)
        self.longest = config.n_max - 1 if longest is None else longest
        self.limit = int(limit)
        self.gaps = config.target is Label.SLOT
        self.full = 0  #: fits of all rows so far
        self.incremental = 0  #: fits from a memo so far

    def _answers(self, jobs: list[Job]) -> list[Fit | HardwareError]:
        results = list(self.backend(jobs)) if jobs else []
        if len(results) != len(jobs):
            raise ValueError(f"the backend answered {len(results)} of {len(jobs)} jobs")
        return results

    def _do(self, jobs: list[Job]) -> list[Fit]:
        return [_trained(result) for result in self._answers(jobs)]

    def build(
        self, parts: Sequence[tuple[Sequence[bytes], Window]], *, dense: bool = False
    ) -> list[Model]:
        """Fit models to all keys of groups, each in its window; `dense`: to their places, whatever the target."""
        self.full += len(parts)
        slots = [self._fresh(len(keys), dense) for keys, _ in parts]
        jobs = [
            _whole(number, keys, window, where)
            for number, ((keys, window), where) in enumerate(zip(parts, slots, strict=True))
        ]
        return [
            Model(fit, None if dense else where)
            for fit, where in zip(self._do(jobs), slots, strict=True)
        ]

    def _fresh(self, count: int, dense: bool = False) -> Slots | None:
        return None if not self.gaps else Slots.dense(count) if dense else Slots.spread(count)

    def refit(self, changes: Sequence[Change]) -> list[Model]:
        """Fit models again, from their memos where these can be used: where all keys still share what lies before the window, and what is removed can be
        taken out of the memo; the engine refuses that of some factors of method `givens`."""
        jobs: list[tuple[Job, Slots | None]] = []
        for number, change in enumerate(changes):
            model, keys = change.model, change.keys
            ends = [texts[at] for texts in (keys, change.removed) if texts for at in (0, -1)]
            again: tuple[Job, Slots | None] | None = None
            if ends and common(min(ends), max(ends)) >= model.window.prefix:
                again = self._again(number, change)
            self.incremental += again is not None
            jobs.append(again or self._in_full(number, change))
        results = self._answers([job for job, _ in jobs])
        refused = [
            number
            for number, result in enumerate(results)
            if isinstance(result, HardwareError) and result.code is FitError.QR_DOWNDATE
        ]
        self.incremental -= len(refused)
        for number in refused:
            jobs[number] = self._in_full(number, changes[number])
        fits = self._do([jobs[number][0] for number in refused])
        for number, fit in zip(refused, fits, strict=True):
            results[number] = fit
        return [
            Model(_trained(result), where) for result, (_, where) in zip(results, jobs, strict=True)
        ]

    def _in_full(self, number: int, change: Change) -> tuple[Job, Slots | None]:
        """The job that trains a group afresh."""
        model, keys = change.model, change.keys
        self.full += 1
        inside = not keys or common(keys[0], keys[-1]) >= model.window.prefix
        where = self._fresh(len(keys))
        window = model.window if inside else _moved(model, keys, self.longest)
        return _whole(number, keys, window, where), where

    def _again(self, number: int, change: Change) -> tuple[Job, Slots | None] | None:
        """The job from the memo; None where an array with gaps has no more of them."""
        model, keys, memo = change.model, change.keys, change.model.fit.memo
        job = Job(
            number,
            memo.window,
            memo.offsets,
            features(keys, memo.window),
            inserted=np.array(change.added, dtype=np.int64),
            removed=features(change.removed, memo.window),
            memo=memo,
            epoch=memo.epoch,
        )
        if not self.gaps:
            return job, None
        new = set(change.added)
        stay = [key for at, key in enumerate(keys) if at not in new]
        assert model.slots is not None
        gone = [bisect_left(stay, key) + at for at, key in enumerate(change.removed)]
        shift = model.slots.after(change.added, gone)
        if shift is None:
            return None
        slots, moved, before = shift
        return replace(
            job,
            labels=slots.array(),
            removed_labels=model.slots.array()[gone],
            moved=np.array(moved, dtype=np.int64),
            moved_from=np.array(before, dtype=np.int64),
            limit=int(self.limit / DENSITY),
        ), slots


def _whole(number: int, keys: Sequence[bytes], window: Window, slots: Slots | None) -> Job:
    """Return the job of fitting all of a group's keys; offsets are the columns' means, which keeps the numbers small."""
    rows = features(keys, window)
    offsets = (
        np.rint(rows.mean(axis=0)).astype(np.uint8)
        if len(rows)
        else np.zeros(window.length, dtype=np.uint8)
    )
    return Job(number, window, offsets, rows, labels=None if slots is None else slots.array())


def _trained(result: Fit | HardwareError) -> Fit:
    if isinstance(result, HardwareError):
        raise TrainingError(result)
    return result


def _moved(model: Model, keys: Sequence[bytes], longest: int) -> Window:
    """Return the model's window, begun early enough for all keys."""
    prefix = common(keys[0], keys[-1])
    return Window(prefix, min(model.window.prefix + model.window.length - prefix, longest))


@dataclass(frozen=True)
class _Golden:
    """A class, not a function, so that an index with it can be pickled."""

    config: FitPlan

    def __call__(self, jobs: Sequence[Job]) -> list[Fit | HardwareError]:
        return [refit(job, self.config, number) for number, job in enumerate(jobs)]


def golden(config: FitPlan) -> Backend:
    """Return the golden model of that engine as a backend."""
    return _Golden(config)
