"""The words in which cycle models say when things happen.

Times are numbers of cycles. A model asks each thing that a step needs from which cycle on it is free, takes the latest of these cycles, and notes what it has
taken. Blocks that hold each other up in both directions are stepped instead, cycle by cycle.

* `Resource`: one job at a time.
* `Credits`: so many jobs at a time.
* `Channel`: a stream between two blocks that are stepped.
* `Steps`: cycle after cycle until an end, but for those in which nothing moves.
"""

import heapq
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Resource:
    """What one job has at a time, for `interval` cycles: here 3. Job a needs it from cycle 1 on, b from 2 on.

        cycle      0  1  2  3  4  5  6  7
        has it        a  a  a  b  b  b         behind both jobs `free` is 7
        waits            b  b

    Where it depends on the job how long it has the resource, `free` is set instead.
    """

    __slots__ = ("free", "interval")

    def __init__(self, interval: int = 1, free: int = 0) -> None:
        self.interval, self.free = interval, free

    def take(self, earliest: int) -> int:
        """Take it, from cycle `earliest` on; return the cycle in which it is taken."""
        cycle = self.free if self.free > earliest else earliest
        self.free = cycle + self.interval
        return cycle


class Credits(deque[int]):
    """Credits for `count` jobs at a time, which are given back in their order: here 2. All are there from cycle `start` on.

        cycle      0  1  2  3  4  5  6  7
        first      a  a  a  a  c  c            a gives its own back from 4 on, b from 6 on
        second        b  b  b  b  b            behind both, c finds `free` to be 4
        waits            c  c

    A job asks `free`, and calls `give` as soon as it is known when its credit is back. Where n jobs before it have not done so yet, it asks for item n.
    """

    def __init__(self, count: int, start: int = 0) -> None:
        super().__init__([start] * count, count)

    #: the first cycle in which the next job finds a credit
    free = property(itemgetter(0))
    #: the first cycle in which the credit of the latest job is back
    latest = property(itemgetter(-1))
    #: note from which cycle on the next job's credit is back
    give = deque[int].append

    def wait(self, cycle: int) -> None:
        """Have none back before this cycle."""
        self.extend([max(back, cycle) for back in self])

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened so much later."""
        self.extend([back + cycles for back in self])


class Channel(Generic[Item]):
    """A stream behind a buffer (`hdl.stream.Buffer`), cycle by cycle: `item` is what its consumer is offered, None for nothing.

    cycle     0  1  2  3  4
    offer     a  b  c  c         the producer's
    ready     1  1  0  0  1      to the producer: b went to `spare`, as a was not taken
    item         a  a  a  b
    taken     0  0  0  1  1
    """

    def __init__(self) -> None:
        self.item: Item | None = None
        self.spare: Item | None = None

    @property
    def ready(self) -> bool:
        return self.spare is None

    def step(self, offer: Item | None, taken: bool) -> None:
        """End a cycle: `offer` was offered, whether `ready` or not; the item was taken or not."""
        if self.item is None or taken:
            self.item, self.spare = (offer, None) if self.spare is None else (self.spare, None)
        elif offer is not None and self.spare is None:
            self.spare = offer


class Steps:
    """Blocks that are stepped, from cycle 1 on. Cycles in which nothing moves are left out.

    cycle     1  2  3  4  5 … 19 20 21
    stepped   x  x  x             x  x      3: nothing moves; somebody said `wake(20)`
    """

    def __init__(self) -> None:
        self.now = 0
        self._alarms: list[int] = []

    def wake(self, cycle: int) -> None:
        """Step in that cycle, whether anything moves before it or not."""
        if cycle > self.now:
            heapq.heappush(self._alarms, cycle)

    def until(self, over: Callable[[], bool], step: Callable[[int], bool]) -> None:
        """Step until it is over. `step` takes the cycle, and returns whether anything moves in it."""
        alarms, self.now = self._alarms, 1
        while not over():
            if step(self.now):
                self.now += 1
                continue
            while alarms and alarms[0] <= self.now:
                heapq.heappop(alarms)
            self.now = heapq.heappop(alarms)
