"""The clock of a part by how full it is. Whether a part holds a design is `penstock.designs.feasible`."""

from .resources import AIM, Resources
from .target import Capacity, Target

#: a clock falls in proportion beyond `AIM`, to 0 at `AIM` + `SLOPE`
SLOPE = 0.4


def fullest(need: Resources, part: Capacity) -> tuple[str, float]:
    """Return the resource of which a design takes the largest share, and the share."""
    return max(need.shares(part).items(), key=lambda item: item[1])


def derated(mhz: float, share: float) -> float:
    """Return the clock in MHz, to three digits, of a part of which so large a share is taken: the stated one up to `AIM`."""
    return mhz if share <= AIM else float(f"{mhz * (1.0 - (share - AIM) / SLOPE):.3g}")


def slower(share: float, part: Target) -> float:
    """Return how many times as long a cycle takes of a part of which so large a share, at most 1, is taken; 1 where placements tell its clock."""
    has_clock = part.shared is not None or part.clock.evidence == "placed"
    return 1.0 if has_clock else 1.0 / derated(1.0, share)
