"""When a new factor leaves the solver of method `givens`: the twin of `hdl.qr.factor_writer.FactorWriter`."""

from __future__ import annotations

from collections import deque

from .config import FitPlan
from .contexts import Context, State

__all__ = ["FactorWriter"]


class FactorWriter:
    """The way out of new factors: row by row through one memory port, packed into bus words."""

    def __init__(self, config: FitPlan) -> None:
        self.lanes, self.word = config.lanes, config.bus_bytes // 4
        self.most = self.word + self.lanes + 1  # floats with which one more piece is taken
        self.asked: list[tuple[Context, State | None]] = []
        self.now: tuple[Context, State | None] | None = None
        self.left: deque[int] = deque()
        self.piece = self.level = 0
        self.closing = False
        self.final = False  # the piece is the job's last one
        self.of_piece = self.of_words = 0  # jobs
        self.whole: int | None = (
            None  # the job whose last word leaves in the cycle of the latest step
        )

    @property
    def busy(self) -> bool:
        """Whether the next step changes anything."""
        return bool(self.left or self.asked or self.piece or self.level or self.closing)

    def give(self, context: Context, then: State | None) -> None:
        """`then`: the state of the context's right side afterwards."""
        self.asked.append((context, then))

    def step(self) -> tuple[Context, State | None] | None:
        """One cycle. Return what was given with the context whose last piece is read in it."""
        self.whole = None
        advance = self.level <= self.most and not self.closing
        sends = self.level >= self.word or (self.closing and self.level > 0)
        at = self.level - (min(self.word, self.level) if sends else 0)
        closing = self.closing and not (sends and self.level <= self.word)
        if self.closing and not closing:
            self.whole = self.of_words
        gone, idle = None, not self.left
        if advance:
            at += self.piece
            self.of_words = self.of_piece if self.piece else self.of_words
            closing = closing or (self.piece > 0 and self.final)
            self.piece = self.left.popleft() if self.left else 0
            self.final = not self.left
            if self.piece and self.now is not None:
                self.of_piece = self.now[0].job
            if self.piece and self.final:
                gone, idle = self.now, True
        self.level, self.closing = at, closing
        if idle and self.asked:
            self.now = self.asked.pop(0)
            n = self.now[0].work.columns
            for behind in range(n - 1, -1, -1):
                self.left.append(1 + min(self.lanes, behind))
                self.left.extend(
                    min(self.lanes, behind - k) for k in range(self.lanes, behind, self.lanes)
                )
        return gone
