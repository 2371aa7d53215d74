"""The schedule of the front: which cycle of an operation does what, and how often one may begin.

Every access to HBM has the deadline that the configuration states; its data are used then and not
before. So no cycle depends on what HBM does, and every operation takes the same steps at the same
distances from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import OmapConfig

#: from a command to its first word, beside HBM's own latency: two queues and the address
_WORD = 3
#: frames that are freed a cycle, and those of a word of the free list, at most
_FREED = 4
#: bits of a word of UltraRAM
_WORD_BITS = 72
#: from an operation to the next one, whatever the configuration: the records of one beat each
LEAST = 7
#: from a write's command to the cycle in which its answer is counted, beside HBM's own latency
_ANSWER = 4


@dataclass(frozen=True)
class FrontSchedule:
    """Cycles of an operation that the front takes in cycle 0.

    Pages are handed on in `ask` - 1 and `ask`, how often they were written in `placed` + 2 and + 3,
    and the operation in `placed` + 3.
    """

    hashed: int  #: the key's hash is there, and the first command to a bucket is given
    scan: int  #: the first word of its buckets is looked at, one a cycle from then on
    decided: int  #: all words were, and what the request means is settled a cycle later
    ask: int  #: the first command to a bin's record
    records: int  #: the first word of a record is taken, one a cycle from then on
    placed: int  #: all are there, with what earlier operations did
    #: whatever is read from then on sees what this operation writes
    entry_seen: int
    records_seen: int
    end: int  #: its last cycle
    interval: int  #: from an operation to the next one at least
    freed: int  #: frames that are freed a cycle, at most
    packed: int  #: frames of a word of the free list
    words: int  #: of the free list
    #: how many operations before it may have written something that its reads do not see. Of
    #: records, the latest one's are taken as they are written, those of the others from RAM.
    kept_entries: int
    kept_records: int

    @classmethod
    def of(cls, config: OmapConfig) -> FrontSchedule:
        buckets, record = 2 * config.bucket_beats, config.record_beats
        hashed = 4 + config.key_bytes // 8
        scan = hashed + _WORD + config.access.deadline
        decided = scan + buckets
        ask = decided + 2
        records = ask + _WORD + config.access.deadline
        placed = records + 4 * record + 1
        entry_seen = placed + 2 + _ANSWER + config.access.deadline
        records_seen = placed + 2 + 4 * record - 1 + _ANSWER + config.access.deadline
        interval = max(
            hashed + 1,  # the hash unit
            buckets + 2,  # a scan and its decision
            4 * record
            + 3,  # an operation's records are settled before the next ones are looked for
            -(-(3 * record + 8) // 2),  # and in RAM before those behind that
            config.access.beat_cycles * max(buckets, 4 * record),  # HBM's ports
            config.access.pace,  # HBM's rows
        )
        frames = config.freed_frames
        freed = min(-(-frames // (interval - 2)), _FREED)
        packed = max(freed, min(_WORD_BITS // config.frame_bits, _FREED))
        freeing = -(-frames // freed)
        interval = max(interval, freeing + 2)
        end = max(entry_seen, records_seen, placed + 4 + freeing)
        return cls(
            hashed,
            scan,
            decided,
            ask,
            records,
            placed,
            entry_seen,
            records_seen,
            end,
            interval,
            freed,
            packed,
            -(-config.frames // packed),
            _before(entry_seen - hashed - 2, interval),
            _before(records_seen - ask - 2, interval),
        )

    def within(self, first: int, last: int) -> int:
        """How many operations may be between these two of their cycles at once."""
        return (last - first) // self.interval + 1


def _before(cycles: int, interval: int) -> int:
    """Operations that began less than so many cycles before, at least one."""
    return max(-(-cycles // interval) - 1, 1)
