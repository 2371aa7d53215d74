"""How an index is laid out, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """How keys are grouped and when groups are fitted again. None of it decides whether a key is found.

    Args:
        smallest, forward, backward, window: bulk load: a group grows by `forward` keys while its window is shorter than `window` bytes, then shrinks by
            `backward` while it is longer, not below `smallest` keys (SIA: 400, 550, 50 and 4).
        largest: a group with more keys is split.
        buffer: a group is fitted again once so many keys wait in its buffer.
        tombstones: or once this share of its array is deleted (at least `buffer` keys).
        span: positions that a model's window may span; beyond, the byte window is chosen anew, and then the group is split if it has 2 × `smallest`
            keys.
        crumbs: a group with fewer keys is joined to its neighbour.
    """

    smallest: int = 400
    forward: int = 550
    backward: int = 50
    window: int = 4
    largest: int = 4096
    buffer: int = 64
    tombstones: float = 0.25
    span: int = 256
    crumbs: int = 100

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) is not int and not (name == "tombstones" and type(value) is float):
                raise ValueError(
                    f"a layout's {name} is a {'number' if name == 'tombstones' else 'whole number'}, not {value!r}"
                )
        if (
            not 0 < self.crumbs <= self.smallest <= self.forward <= self.largest // 2
            or not 0 < self.backward < self.forward
        ):
            raise ValueError(
                f"a layout needs 0 < crumbs <= smallest <= forward <= largest / 2 and backward < forward: {self}"
            )
        if self.buffer < 1 or self.span < 1 or self.window < 1 or not 0 < self.tombstones <= 1:
            raise ValueError(
                f"a layout's buffer, span and window are at least 1 and tombstones a share of 1: {self}"
            )


@dataclass
class Statistics:
    """What keeping the models has cost since the index was made or `clear_statistics`.

    refits: groups fitted again. builds: groups fitted anew in another window or another cut. splits, joins: of groups. changed: keys put in and taken
    out by refits. rows: keys of all fitted groups. seconds: time in all of this, merging arrays included; fitting: the part of it that the trainer took.
    """

    refits: int = 0
    builds: int = 0
    splits: int = 0
    joins: int = 0
    changed: int = 0
    rows: int = 0
    seconds: float = 0.0
    fitting: float = 0.0
