"""Learned indexes whose groups are small, and what holds of every one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sortedcontainers import SortedDict

from penstock.host.learned_index import Layout, LearnedIndex, Trainer
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Method
from testbench.qr_cases import slot_plan

__all__ = ["CONFIGS", "SMALL", "found", "same", "small"]

#: groups so small that everything happens: fits, splits, joins, new windows
SMALL = Layout(
    smallest=8,
    forward=12,
    backward=4,
    window=3,
    largest=32,
    buffer=4,
    tombstones=0.25,
    span=12,
    crumbs=3,
)
CONFIGS = {
    "gram": FitPlan(n_max=16, method=Method.GRAM),
    "givens": FitPlan(n_max=16, method=Method.GIVENS),
    "slots": slot_plan(n_max=16, method=Method.GRAM),
}


def small(kind: str = "gram", items: Any = (), **options: Any) -> LearnedIndex:
    return LearnedIndex(items, trainer=Trainer(CONFIGS[kind], limit=16), layout=SMALL, **options)


def found(index: LearnedIndex) -> None:
    """Hold every group to its promise: each key of its array lies in the window of both predictions, and groups hold what is theirs."""
    groups = index._groups
    for number, group in enumerate(groups):
        model = group.model
        assert model is not None
        positions = model.labels(len(group.keys))
        assert len(positions) == len(group.keys) and (np.diff(positions) > 0).all()
        exact = model.predict(group.keys)
        assert ((exact + model.low <= positions) & (positions <= exact + model.high)).all()
        for at, (key, label) in enumerate(zip(group.keys, positions.tolist(), strict=True)):
            guess = model.guess(key)
            assert guess + model.near <= label <= guess + model.far and group.position(key) == at
        assert (
            group.keys == sorted(set(group.keys))
            and group.waiting == sorted(group.buffer)
            and not set(group.buffer) & set(group.keys)
        )
        assert all(0 <= at < len(group.keys) for at in group.dead)
        for key in group.live():
            assert (number == 0 or group.pivot <= key) and (
                number + 1 == len(groups) or key < groups[number + 1].pivot
            )
    pivots = [group.pivot for group in groups]
    assert index._root.pivots == pivots == sorted(set(pivots))
    assert index._sizes == [len(group) for group in groups] and len(index) == sum(index._sizes)


def same(index: LearnedIndex, model: SortedDict) -> None:
    assert len(index) == len(model)
    assert (
        list(index) == list(model)
        and list(index.items()) == list(model.items())
        and list(index.values()) == list(model.values())
    )
    assert list(reversed(index)) == list(reversed(model))
