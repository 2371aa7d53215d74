"""Under which assumptions a system is looked at: the paper's, or ones that charge what it leaves out."""

from dataclasses import dataclass
from enum import Enum


class Refresh(Enum):
    """What refresh costs: a round that does not end before the next refresh waits for it, and the refresh
    itself takes no time (WINDOW, as the public simulator does), or tRFC as well (CHARGED)."""

    WINDOW = "window"
    CHARGED = "charged"


@dataclass(frozen=True)
class Assumptions:
    """What a system model charges.

    `occupancy`: bandwidth of a GPU's state update and attention scaled by how many of its processors have
    a thread block (a kernel that splits heads over more blocks would not lose it); `refresh`: as above;
    `scaled_rows`: row timings keep their nanoseconds at the memory's real clock, instead of their cycles;
    `drain`: the pipeline's last slots of each round are charged; `published_energy`: register writes and
    results are counted as the public simulator counts them.
    """

    name: str
    occupancy: bool
    refresh: Refresh
    scaled_rows: bool
    drain: bool
    published_energy: bool


PUBLISHED = Assumptions("paper's", True, Refresh.WINDOW, False, False, True)
HONEST = Assumptions("honest", False, Refresh.CHARGED, True, True, False)
