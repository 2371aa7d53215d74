"""The root: finds a key's group by models over the groups' first keys."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from ...models.qr.job import Window
from .trainer import Model, Trainer, TrainingError
from .windows import common_prefixes, window_of

_FEW = 16  # pivots that are searched without a model
_MODELS = 4  # piecewise models, as in SIA


class Root:
    """Sorted pivots, the first key of each group; the first group also has all keys below its pivot.

    Up to four models, each over its part of the pivots, guess where to look. The guess is verified, and if it is wrong all pivots are searched: a
    model's bounds hold for pivots, not for keys between them, and pivots come and go between fits.
    """

    def __init__(self, pivots: list[bytes], trainer: Trainer) -> None:
        self.pivots = pivots
        self._trainer = trainer
        self._starts: list[bytes] = []  # first pivot of each model
        self._bases: list[int] = []
        self._models: list[Model] = []
        self._changes = 0
        self.fit()

    def fit(self) -> None:
        """Fit the models to the pivots as they are."""
        self._changes = 0
        size = len(self.pivots)
        count = min(_MODELS, size // _FEW)
        bounds = [size * part // count for part in range(count + 1)] if count else []
        parts = [self.pivots[a:b] for a, b in itertools.pairwise(bounds)]
        self._bases, self._starts = bounds[:-1], [part[0] for part in parts]
        self._models = self._trainer.build(
            [(part, self._window(part)) for part in parts], dense=True
        )

    def _window(self, pivots: list[bytes]) -> Window:
        prefixes = common_prefixes(pivots)[1:]
        # SIA's rule for the root: one byte more
        return window_of(int(prefixes.min()), int(prefixes.max()) + 1, -1, self._trainer.longest)

    def find(self, key: bytes) -> int:
        """Return the number of the group that the key belongs to."""
        pivots = self.pivots
        if self._models:
            part = bisect_right(self._starts, key) - 1 if key >= self._starts[0] else 0
            model = self._models[part]
            guess = model.guess(key) + self._bases[part]
            # one pivot more on either side: a key lies between two of them
            low, high = guess + model.near - 1, guess + model.far + 2
            if low < 0:
                low = 0
            if high > len(pivots):
                high = len(pivots)
            if low < high and pivots[low] <= key and (high == len(pivots) or key < pivots[high]):
                return bisect_right(pivots, key, low, high) - 1
        at = bisect_right(pivots, key) - 1
        return at if at > 0 else 0

    def find_many(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return `find` of many keys, int64[len(keys)], without the models: a search in C over all pivots is as fast."""
        places = [bisect_right(self.pivots, key) for key in keys]
        return np.maximum(np.array(places, dtype=np.int64) - 1, 0)

    def insert(self, at: int, pivot: bytes) -> None:
        """Note a new group, number `at`."""
        self.pivots.insert(at, pivot)
        self._changed()

    def remove(self, at: int) -> None:
        """Note that group number `at` is gone."""
        del self.pivots[at]
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
        # fit again once about a sixteenth of the pivots have changed
        if self._changes * 16 > len(self.pivots) + _FEW:
            try:
                self.fit()
            except TrainingError:  # without models the pivots are searched, which is as right
                self._models = []
