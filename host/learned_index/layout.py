"""How an index is laid out, and what it counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """How keys are grouped and when groups are fitted again. None of it decides whether a key is found.

    At bulk load a group grows by `forward` keys while its window is shorter than `window` bytes, then shrinks by `backward` keys while it is
    longer, not below `smallest` keys (SIA: 400, 550, 50 and 4).
    """

    smallest: int = 400
    forward: int = 550
    backward: int = 50
    window: int = 4
    largest: int = 4096  #: a group with more keys is split
    buffer: int = 64  #: keys in a group's buffer with which it is fitted again
    #: share of a group's array that is deleted, `buffer` keys at least, with which it is fitted
    #: again
    tombstones: float = 0.25
    #: positions that a model's window may span; beyond, the byte window is chosen anew, and then
    #: the group is split if it has 2 × `smallest` keys
    span: int = 256
    crumbs: int = 100  #: a group with fewer keys is joined to its neighbour

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
    """What keeping the models has cost since the index was made or `clear_statistics`."""

    refits: int = 0  #: groups fitted again
    builds: int = 0  #: groups fitted anew in another window or another cut
    splits: int = 0
    joins: int = 0
    changed: int = 0  #: keys put in and taken out by refits
    rows: int = 0  #: keys of all fitted groups
    seconds: float = 0.0  #: seconds of all of this, merging arrays included
    fitting: float = 0.0  #: seconds that the trainer took
