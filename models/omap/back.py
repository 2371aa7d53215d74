"""The schedule of the back: it fetches frames, merges pages and answers, one operation behind another.

The frames of an operation are asked for as soon as the front hands it on, and are used at their
deadline. An item that an earlier operation puts into one of them may not be there yet: it is taken
from the items of the latest operations, which lie on the chip. So no operation waits for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import OmapConfig, power_of_two


@dataclass(frozen=True)
class BackSchedule:
    """Cycles of the back.

    The request of operation j is fetched when operation j - `window` is merged. All earlier ones
    are merged at least `apart` cycles apart, so that the write of operation j - `items` is in HBM
    when j is handed on.
    """

    #: from one operation's fetch to the next one's at least; a frame of each side may be asked for
    #: in each of the first `slots` cycles
    fetch: int
    due: int  #: from a fetch to the cycle after which its frames are used
    merge: int  #: of a merge: both sides pass side by side, `merge_blocks` of an item a cycle
    #: from one merge to the next one at least, so that items do not come to HBM too soon
    apart: int
    #: so many blocks of a page may still be on their way through the opener when its merge begins:
    #: they are there in time
    ahead: int
    #: from a merge's begin to the cycle in which its pages are handed on, which is the first one of
    #: the response and of the item's write to its frame
    sealed: int
    answered: int  #: from a merge's begin to the response's last block
    stored: int  #: from the begin of the item's write to the cycle in which it is in HBM
    items: int  #: the operations whose items are kept on the chip, a power of two

    @classmethod
    def of(cls, config: OmapConfig) -> BackSchedule:
        words = config.slots * config.frame_beats * config.access.beat_cycles
        merge = max(
            config.page_rows, config.message_blocks, config.frame_beats * config.access.beat_cycles
        )
        sealed, apart = merge + 3, max(merge, config.access.frame_pace)
        deadline = config.access.frame_deadline or config.access.deadline
        stored = 8 + config.slot_blocks * config.access.beat_cycles + deadline
        return cls(
            fetch=words,
            due=4 + deadline + words,
            merge=merge,
            apart=apart,
            ahead=min(config.page_rows // config.sealing_pace.block, config.chunk_blocks - 1),
            sealed=sealed,
            answered=sealed + config.message_blocks - 1,
            stored=stored,
            items=power_of_two(config.window + -(-stored // apart)),
        )

    @property
    def interval(self) -> int:
        """Cycles from one operation to the next one at least."""
        return max(self.fetch, self.apart)
