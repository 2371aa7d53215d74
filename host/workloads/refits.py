"""Refits as a workload: groups of keys that are trained once, then refitted in rounds with keys that came and went; from random keys or from given ones.

A round's jobs, one a group, are all known at its start; a host needs their fits for the next round's. The fits are the golden model's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...models.errors import HardwareError
from ...models.qr.config import FitPlan
from ...models.qr.cycles import Work
from ...models.qr.golden import refit
from ...models.qr.job import Fit, Job, Window
from ...models.qr.shell import FitError
from ..learned_index.windows import common_prefixes, features
from .groups import Group, keys

#: share of an array's slots that a full training fills
DENSITY = 0.5
#: a pass over all rows when a window is this much wider than at the last one
WIDER = 1.5


class TooFew(ValueError):
    """There are not enough keys for the groups and rounds that are wanted, or for those that are to go."""


@dataclass(frozen=True)
class Changes:
    """How many groups there are, how often each is refitted, and how many rows come and go every time. Raises ValueError for less than one group, and for
    negative numbers."""

    groups: int = 8
    refits: int = 4
    new: int = 50
    gone: int = 0

    def __post_init__(self) -> None:
        for name, least in (("groups", 1), ("refits", 0), ("new", 0), ("gone", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass
class Round:
    """One start of the engine: a job for every group, what the golden model makes of it, and its size for the cycle model."""

    jobs: list[Job] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)


class _Windowed(Group):
    """A group in a byte window of its own."""

    def __init__(
        self, config: FitPlan, rows: NDArray[np.uint8], number: int, window: Window
    ) -> None:
        super().__init__(config, rows, number, DENSITY)
        self.of_bytes = window
        self.limit = 1 << 30

    @property
    def window(self) -> Window:
        return self.of_bytes


class Refits:
    """Groups and the rows that will come to them.

    Parameters: `loaded`: each group's rows (uint8, any order) and window; `coming`: for each group and round, the rows that come; `seed`: chooses rows that go.
    Raises TooFew where a group has not as many rows as are to go.
    """

    def __init__(
        self,
        loaded: Sequence[tuple[NDArray[np.uint8], Window]],
        coming: Sequence[Sequence[NDArray[np.uint8]]],
        changes: Changes,
        seed: int = 1,
    ) -> None:
        self.loaded, self.coming = list(loaded), coming
        self.changes, self.seed = changes, seed
        for number, ((rows, _), rounds) in enumerate(zip(self.loaded, coming, strict=True)):
            left = len(rows)
            for come in rounds:
                if left < changes.gone:
                    raise TooFew(
                        f"group {number} has {left:,} rows before a refit, of which {changes.gone:,} are to go"
                    )
                left += len(come) - changes.gone

    @property
    def rows(self) -> int:
        """Rows that are trained on at first."""
        return sum(len(rows) for rows, _ in self.loaded)

    @classmethod
    def random(cls, rows: int, columns: int, changes: Changes, seed: int = 1) -> Refits:
        """Random keys of 62 letters, `rows` in all at first, in windows of `columns` - 1 bytes. Raises TooFew."""
        source, length = np.random.default_rng(seed), columns - 1
        each = rows // changes.groups
        if not each:
            raise TooFew(f"{rows} rows are too few for {changes.groups} groups")
        loaded = [
            (keys(source, each, length, 62, 48), Window(0, length)) for _ in range(changes.groups)
        ]
        coming = [
            [keys(source, changes.new, length, 62, 48) for _ in range(changes.refits)]
            for _ in range(changes.groups)
        ]
        return cls(loaded, coming, changes, seed)

    @classmethod
    def of_keys(
        cls, keys: Sequence[bytes], columns: int, changes: Changes, seed: int = 1
    ) -> Refits:
        """Given keys in the order of their arrival: the last of them, `new` a group and round, come to groups of neighbouring earlier ones. Raises TooFew."""
        distinct = list(dict.fromkeys(keys))
        later = changes.groups * changes.refits * changes.new
        first = sorted(distinct[: max(len(distinct) - later, 0)])
        if len(first) < 2 * changes.groups:
            raise TooFew(
                f"{len(distinct):,} distinct keys are too few for {changes.groups} groups and {later:,} keys that come later"
            )
        cuts = [len(first) * g // changes.groups for g in range(changes.groups + 1)]
        parts = [first[a:b] for a, b in pairwise(cuts)]
        pivots = [part[0] for part in parts[1:]]
        arrivals: list[list[bytes]] = [[] for _ in parts]
        for key in distinct[len(distinct) - later :] if later else ():
            arrivals[bisect_right(pivots, key)].append(key)
        loaded, coming = [], []
        for part, fresh in zip(parts, arrivals, strict=True):
            shared = common_prefixes(sorted(part + fresh))[1:]
            prefix = int(shared.min())
            window = Window(prefix, max(1, min(int(shared.max()) - prefix + 1, columns - 1)))
            loaded.append((features(part, window), window))
            coming.append(
                [
                    features(sorted(fresh[a:b]), window)
                    if a < b
                    else np.zeros((0, window.length), dtype=np.uint8)
                    for a, b in (
                        (len(fresh) * r // changes.refits, len(fresh) * (r + 1) // changes.refits)
                        for r in range(changes.refits)
                    )
                ]
            )
        return cls(loaded, coming, changes, seed)

    def play(self, config: FitPlan) -> list[Round]:
        """Return all rounds as the host and the golden model go through them: the trainings, then the refits. A group whose rows cannot be taken out of its
        factor (QR_DOWNDATE) is trained afresh in that round."""
        source = np.random.default_rng(self.seed)
        groups = [
            _Windowed(config, rows, number, window)
            for number, (rows, window) in enumerate(self.loaded)
        ]
        rounds = [self._round(config, groups, [group.full() for group in groups])]
        for number in range(self.changes.refits):
            jobs = []
            for group, rows in zip(groups, self.coming, strict=True):
                doomed = np.sort(source.choice(len(group.rows), self.changes.gone, replace=False))
                jobs.append(group.batch(rows[number], doomed, group.limit))
            rounds.append(self._round(config, groups, jobs))
        return rounds

    def _round(self, config: FitPlan, groups: Sequence[_Windowed], jobs: list[Job]) -> Round:
        out = Round()
        for number, (group, job) in enumerate(zip(groups, jobs, strict=True)):
            fit = refit(job, config, number)
            if isinstance(fit, HardwareError) and fit.code is FitError.QR_DOWNDATE:
                job = group.full()  # the attempt before it is not among the jobs
                fit = refit(job, config, number)
            if isinstance(fit, HardwareError):
                raise ValueError(f"a job of the workload is not valid: {fit}")
            group.take(fit)
            if fit.rescanned:
                group.limit = int(WIDER * max(fit.err_max - fit.err_min, 1))
            out.jobs.append(job)
            out.fits.append(fit)
            out.works.append(Work.of(job, fit, config))
        return out
