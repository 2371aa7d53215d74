"""What a user fixes of a plan, and what it shall be best at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: time: the fastest, and the smallest of those as fast; area: the smallest that takes at most twice as long; energy: the least time × power
PREFER = ("time", "area", "energy")


@dataclass(frozen=True)
class Choices:
    """What the user fixes; None leaves it to the planner. `fill`: how much of each of the part's resources is aimed at, more is taken only
    where nothing else fits; `prefer`: one of `PREFER`; `place`: by model with rows "chip", "memory", or "memory:64" with
    64 rows held on the chip; `hot`: by model the rows that are held throughout, the hottest first, as far as there are lines;
    `dedupe`: an index whose rows are those that the tuple before it in its batch had is not looked up again."""

    lanes: int | None = None
    threads: int | None = None
    ports: int | None = None
    walkers: int | None = None
    on_null: str = "error"
    on_overflow: str = "error"
    on_nan: str = "error"
    on_index: str = "error"
    on_unseen: str = "error"
    visibility: str = "hints"
    prefer: str = "time"
    fill: float = 0.80
    place: Mapping[str, str] = field(default_factory=dict)
    hot: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dedupe: bool = False
