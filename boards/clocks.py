"""Which clock a plan is built for where the user names none.

What limits a device is the longest path between two registers: in the Striders' address arithmetic for narrow formats, in the adders, shifters and
products of wide ones. `REACH` is the lowest clock that placements with one seed have reached on a family's speed grade (docs/howto/boards.md says of what);
a plan is made for `MARGIN` of it, and never for more than the board's own limit.
"""

from collections.abc import Mapping

from ..models.numerics.formats import Format
from ..models.target import Target
from .flow import LARGE

#: clocks at which what an SDRAM gives meets the device's edge, see `top.BoardTop`
SDRAM_MHZ = (40.0, 100.0)
#: share of what placements have reached: seeds and plans differ by as much
MARGIN = 0.8
#: MHz by (family, speed grade): formats of up to 16 bits in fixed point, wider fixed point, floats; whatever is `flow.LARGE`
REACH: dict[tuple[str, str], tuple[float, float, float, float]] = {
    ("ecp5", "6"): (87.0, 77.0, 77.0, 49.0),
    ("ecp5", "8"): (95.0, 78.0, 78.0, 72.0),
}


def chosen_clock(
    board: Target, fmt: Format, lut: int, mhz: Mapping[tuple[str, str], float] | None = None
) -> float:
    """Return the clock in MHz that a plan in this format, of about so many look-up tables, is built for on the board.

    `mhz`: clocks in MHz that an engine asks for, by family and speed grade, where formats and sizes do not say them. Boards of other families have
    their own clock.
    """
    part = board.family, board.pins.speed
    reach = REACH.get(part)
    if reach is None:
        return board.clock_mhz
    kind = 3 if lut > LARGE else 2 if fmt.is_float else 1 if fmt.width > 16 else 0
    least = SDRAM_MHZ[0] if board.memory.kind == "SDRAM" else 0.0
    return min(board.clock_mhz, max(least, (mhz or {}).get(part, float(int(MARGIN * reach[kind])))))
