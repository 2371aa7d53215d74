"""When scores leave, in cycles: the twin of `hdl.analytics.scores.ScoreWriter`."""

from ..memory.bursts import Writer
from .config import AnalyticsPlan
from .shell import score_room
from .timing import write_times


class ScoreWriter:
    """Says when a run's scores fill bus words, when bursts of words leave, and from when on the next group has room.

    `room`, then `group`, for each group in the order of starts; `finish` once. All cycles are counted from the run's start.
    """

    def __init__(self, plan: AnalyticsPlan, writer: Writer, address: int) -> None:
        self.plan, self.writer = plan, writer
        self.address, self.size = address, score_room(plan)
        self.per_word = plan.bus_bytes // plan.format.container
        [op] = [op for op in plan.ops if op.dest == plan.roles.score]
        written = write_times(op, plan.buffers, plan.format, plan.lanes, plan.threads)[1]
        #: from a group's start to its first score's way into a word
        self.late = 2 + op.start + int(written.max())
        self.started = self.placed = 0  # scores
        self.full: list[int] = []  # by word, the cycle in which it goes into the queue
        self.sent: list[int] = []  # by word, the cycle in which it leaves
        self.last = 0  # the cycle in which the latest score goes into a word
        self.asked = -1  # the cycle in which the latest burst was accepted

    def room(self) -> int:
        """Return from which cycle on there is room for the next group's scores."""
        words = -(-(self.started + self.plan.threads - self.size.codes) // self.per_word)
        return self.sent[words - 1] + 1 if words > 0 else 0

    def group(self, start: int, count: int) -> None:
        """Take a group of so many tuples that starts in this cycle."""
        self.started += count
        for k in range(count):
            self.placed += 1
            self.last = start + self.late + k
            if not self.placed % self.per_word:
                self.full.append(self.last + 1)
        while len(self.full) - len(self.sent) >= self.size.burst:
            first = len(self.sent)
            self._burst(self.full[first + self.size.burst - 1] + 1, self.size.burst)

    def _burst(self, valid: int, words: int) -> None:
        waiting = iter(self.full[len(self.sent) : len(self.sent) + words])
        at = self.address + len(self.sent) * self.plan.bus_bytes
        source = lambda previous: max(next(waiting), previous) + 1
        self.asked, taken = self.writer.send(max(valid, self.asked + 1), at, words, source)
        self.sent += taken

    def finish(self, cycle: int) -> int:
        """Return the cycle of `done`; no group starts any more from this cycle on."""
        closed = max(cycle, self.last) + 1  # state CLOSE: the last, partial word is closed
        if self.placed % self.per_word:
            self.full.append(closed + 1)
        left = len(self.full) - len(self.sent)
        if left:
            self._burst(closed + 2, left)  # after COUNT, in TAIL
        waiting = max(closed + 2, self.asked + 1) + 1  # state WAIT
        return max(waiting, self.writer.idle() if self.sent else 0)
