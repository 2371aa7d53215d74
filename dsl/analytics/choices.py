"""What a user fixes of a plan, and what it shall be best at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: time: the fastest, and the smallest of those as fast; area: the smallest that takes at most twice as long; energy: the least time × power
PREFER = ("time", "area", "energy")


@dataclass(frozen=True)
class Choices:
    """What the user fixes; None leaves it to the planner."""

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
    prefer: str = "time"  #: one of `PREFER`
    #: share of each of the part's resources that is aimed at; more is taken only where nothing else
    #: fits
    fill: float = 0.80
    #: by model with rows: "chip", "memory", or "memory:64" with 64 rows held on the chip
    place: Mapping[str, str] = field(default_factory=dict)
    #: by model, rows that are held throughout, the hottest first, as far as there are lines
    hot: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: an index with the rows of the tuple before it in its batch is not looked up again
    dedupe: bool = False
