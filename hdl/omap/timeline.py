"""Cycles of operations that follow one another through the same schedule."""

from amaranth.hdl import Cat, Signal


class Timeline:
    """Marks the cycles of operations: `end` cycles from each `start` on.

    Operations may overlap; a cycle of one operation comes at most once at a time.
    """

    def __init__(self, m, start, end):
        self._start = start
        self._line = Signal(end, name="timeline")
        m.d.sync += self._line.eq(Cat(start, self._line))

    def at(self, cycle):
        """High in this cycle of each operation."""
        return self._line[cycle - 1] if cycle else self._start

    def within(self, m, first, count, name):
        """Return a signal that is high in `count` cycles from `first` ≥ 1 on, and which one it is.

        `count` is at most the interval between operations.
        """
        active, number = Signal(name=name), Signal(range(max(count, 2)), name=f"{name}_number")
        with m.If(self.at(first - 1)):
            m.d.sync += [active.eq(1), number.eq(0)]
        with m.Elif(active):
            m.d.sync += number.eq(number + 1)
            with m.If(number == count - 1):
                m.d.sync += active.eq(0)
        return active, number

    @property
    def idle(self):
        """No operation is under way."""
        return ~self._line.any()
