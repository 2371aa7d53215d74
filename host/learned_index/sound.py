"""What a group that was loaded must be before it serves: fields of their types, arrays of their shapes, models that find their keys now and after refits."""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from ...models.qr.bounds import EMPTY
from ...models.qr.config import FitPlan
from ...models.qr.job import Fit, Label, Memo, Method
from .group import Group
from .model import Model
from .windows import features

__all__ = ["check_fit", "check_groups", "check_types"]

_INTEGERS = range(-1 << 31, 1 << 32)  # no field of a fit or a configuration has more than 32 bits


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _suits(value: Any, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_suits(value, each) for each in get_args(hint))
    if get_origin(hint) is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(
            get_args(get_args(hint)[1])[0]
        )
    return type(value) is hint and (hint is not int or value in _INTEGERS)


def check_types(record: Any) -> None:
    """Raise ValueError where a field of the dataclass, or of one in it, is not what its annotation says."""
    kind: Any = type(record)
    hints = _hints(kind)
    for each in fields(record):
        value = getattr(record, each.name)
        if not _suits(value, hints[each.name]):
            raise ValueError(f"{kind.__name__}.{each.name} is not what it must be")
        if is_dataclass(value):
            check_types(value)


def check_fit(fit: Fit, config: FitPlan) -> None:
    """Raise ValueError for a fit that no engine of this configuration makes."""
    check_types(fit)
    memo, window = fit.memo, fit.memo.window
    n, length = window.columns, window.length
    if not (
        window.prefix >= 0
        and 2 <= n <= config.n_max
        and memo.epoch >= 0
        and 0 <= memo.live <= memo.rows
    ):
        raise ValueError("a window, an epoch or rows that cannot be")
    if memo.method is not config.method or memo.target is not config.target:
        raise ValueError("a memo of another engine")
    for present, names in (
        (config.method is Method.GRAM, ("gram",)),
        (config.method is Method.GIVENS, ("d", "u")),
        (config.incremental, ("anchor",)),
    ):
        if any((getattr(memo, name) is not None) != present for name in names):
            raise ValueError("a memo of another engine")
    square = (n, n)
    shapes = {
        "offsets": (length,),
        "sums": (n,),
        "squares": (n,),
        "right_hand_side": (n,),
        "gram": square,
        "d": (n,),
        "u": square,
    }
    arrays = [(getattr(memo, name), shape) for name, shape in shapes.items()] + [
        (fit.weights, (n,)),
        (fit.mask, (n,)),
    ]
    codes = [fit.weights, memo.d, memo.u]
    if memo.anchor is not None:
        box = {"weights": (n,), "low": (length,), "high": (length,)}
        arrays += [(getattr(memo.anchor, name), shape) for name, shape in box.items()]
        codes.append(memo.anchor.weights)
    if any(array is not None and array.shape != shape for array, shape in arrays):
        raise ValueError("an array of another shape than its window's")
    if any(
        array is not None and len(array) and not 0 <= array.min() <= array.max() < 1 << 32
        for array in codes
    ):
        raise ValueError("a number that is no float32")
    _check_sums(memo)


def _check_sums(memo: Memo) -> None:
    """Raise ValueError where a memo's counts of rows are not one number."""
    counts = [memo.sums[0], memo.squares[0]]
    if memo.gram is not None:
        counts.append(memo.gram[0, 0])
    if any(int(count) != memo.rows for count in counts):
        raise ValueError("a memo that counts its rows differently")


def check_groups(groups: list[Group], config: FitPlan) -> None:
    """Raise ValueError where groups and keys are out of order, or where a key would not be found: by a group's model, or by one that is fitted from its memo
    and whose bounds are the old ones, widened. Fits have passed `check_fit`."""
    if not groups:
        raise ValueError("no groups")
    if any(a.pivot >= b.pivot for a, b in itertools.pairwise(groups)):
        raise ValueError("pivots out of order")
    for number, group in enumerate(groups):
        following = groups[number + 1].pivot if number + 1 < len(groups) else None
        for texts in (group.keys, group.waiting):
            if any(a >= b for a, b in itertools.pairwise(texts)):
                raise ValueError("keys out of order")
            if texts and (
                (number and texts[0] < group.pivot)
                or (following is not None and texts[-1] >= following)
            ):
                raise ValueError("keys in a wrong group")
        if not group.buffer.keys().isdisjoint(group.keys):
            raise ValueError("a key twice")
        if any(not 0 <= at < len(group.keys) for at in group.dead):
            raise ValueError("a tombstone outside its group")
        assert group.model is not None
        _check_model(group.model, group.keys, config)


def _check_model(model: Model, keys: list[bytes], config: FitPlan) -> None:
    memo, slots = model.fit.memo, model.slots
    if (slots is not None) != (config.target is Label.SLOT):
        raise ValueError("slots of another engine")
    labels = model.labels(len(keys))
    if len(labels) != len(keys) or (np.diff(labels) <= 0).any() or (len(labels) and labels[0] < 0):
        raise ValueError("slots out of order")
    if slots is not None and not (slots.of[-1] if slots.of else -1) < slots.capacity <= 1 << 31:
        raise ValueError("slots beyond their array's end")
    if not memo.live == memo.rows == len(keys):
        raise ValueError("a memo of other rows")
    if not keys:
        return
    rows = features(keys, model.window)
    errors = labels - model.fit.predict(rows)
    if errors.min() < model.low or errors.max() > model.high:
        raise ValueError("a model that does not find its keys")
    if memo.anchor is not None:
        _check_anchor(memo, rows, labels)


def _check_anchor(memo: Memo, rows: np.ndarray, labels: np.ndarray) -> None:
    """Raise ValueError where the anchor does not hold what it says of these live rows."""
    anchor = memo.anchor
    assert anchor is not None
    guess = Fit(
        0, anchor.weights, np.ones(len(anchor.weights), dtype=bool), 0, 0, False, memo
    ).predict(rows)
    errors = labels - guess
    if (
        anchor.err_min == EMPTY
        or ((errors < anchor.err_min) | (errors > anchor.err_max) | (guess < anchor.least)).any()
        or (rows < anchor.low).any()
        or (rows > anchor.high).any()
    ):
        raise ValueError("an anchor that does not hold its rows")
