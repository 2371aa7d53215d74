"""The fixed schedule of the back: what happens in which cycle of an operation. The front's:
`models.omap.front_schedule`.

Every access has the deadline that the configuration states; the data are used then and not before,
so that no cycle depends on what HBM does.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import OmapConfig

__all__ = ["BackSchedule"]


@dataclass(frozen=True)
class BackSchedule:
    """Cycles of the back, from 0 on: `frames`: the frames are there, and are merged from then on;
    `write`: the item's new frame and the response are written; `sealed`: pages and response are
    handed on; `end`: the last cycle.

    Pages are merged from cycle 1 on, a block a cycle, each frame is asked for in a cycle of its own.
    """

    frames: int
    write: int
    sealed: int
    end: int

    @classmethod
    def of(cls, config: OmapConfig) -> BackSchedule:
        count = 2 * config.slots + 1
        pages = 2 * config.page_blocks
        frames = max(pages + 2, 4 + count + config.deadline + count * config.frame_beats)
        write = frames + count * config.slot_blocks + 2
        sealed = write + config.message_blocks + 2
        return cls(frames, write, sealed, sealed + 8 + config.frame_beats + config.deadline)
