"""The fixed schedules of the stages that work in HBM: what happens in which cycle of an operation.

Every access has the deadline that the configuration states; the data are used then and not before,
so that no cycle depends on what HBM does.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import OmapConfig

__all__ = ["BackSchedule", "FrontSchedule"]


@dataclass(frozen=True)
class FrontSchedule:
    """Cycles of the front, from 0 on: `scanned`: the buckets and the records of the new pair are
    there; `shown`: the records of the bins that are shown are there; `end`: the last cycle.

    Commands: new pair in 1 and 2, buckets in 9 and 10, shown pair in `scanned` + 1 and + 2. Pages
    are handed on in `shown` + 2 and + 3, the operation in `shown` + 3.
    """

    scanned: int
    shown: int
    end: int

    @classmethod
    def of(cls, config: OmapConfig) -> FrontSchedule:
        records, buckets = 2 * config.record_beats, 2 * config.bucket_beats
        scanned = 12 + config.deadline + records + buckets
        shown = scanned + 4 + config.deadline + records
        writes = 4 * config.record_beats + 1
        end = shown + 4 + max(writes + 8 + config.deadline, 2 * config.slots + 1)
        return cls(scanned, shown, end)


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
