"""What every run needs of hardware: bytes into memory, registers, a start, bytes back.

A machine is one engine with its memory: simulated by the native harness (`sim.native`) or by
Amaranth (`sim.python`), or a device (`host.device`). A workload drives any of them alike.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..models.errors import Error, HardwareError
from ..models.ring import Line, Ring
from ..models.shell import RegisterMap

#: of machines: memory is reserved in multiples of it, and no burst crosses a multiple of it
PAGE = 4096

#: called now and then with the cycles of the run so far
Progress = Callable[[int], None]


def round_up(size: int, unit: int = PAGE) -> int:
    """Return the least multiple of `unit` that is not below `size`."""
    return -(-size // unit) * unit


@dataclass(frozen=True)
class Ended:
    """How one start of an engine ended."""

    error: HardwareError | None  #: what ended it early
    cycles: int  #: the hardware's own count
    counters: Mapping[str, int]  #: the hardware's own
    bytes_read: int  #: that ports read; 0 where the machine does not count them
    bytes_written: int  #: that ports wrote
    seconds: float  #: wall time of the run alone


class Hung(Error):
    """The run did not end; `report` says which stream waited for whom."""

    def __init__(self, report: object) -> None:
        super().__init__(f"the run did not end: {report}")
        self.report = report


@dataclass(frozen=True)
class Feed:
    """Pages that come into a port's ring while a run goes on (`models.ring`), again and again."""

    ring: Ring
    pages: NDArray[np.uint8]  #: (count, bytes of a page)
    at: int  #: address of the slots
    line: Line  #: when a simulation brings them; a device does as fast as it can


class Transfer(NamedTuple):
    """One burst of a port: the cycle in which its address was taken, counted from the run's start
    (cycle 0), "read" or "write", the byte address, the beats, and FNV-1a (64 bits) of its bytes."""

    cycle: int
    channel: str
    address: int
    beats: int
    digest: int


class Unsupported(Error):
    """This kind of machine cannot do what is asked of it. The message is meant for the user."""

    code = "E902"


class Machine(Protocol):
    """An engine with its memory. It stays open over several runs; memory keeps its content.

    Memory is a byte array from address 0 on, one for each address space of the engine's ports
    (`PortSpec.space`). `capacity`: its size in bytes, None where it has what is reserved; `apart`:
    bytes of a channel of it, where ports that read much at once had better have one each, 0: no matter.
    """

    register_map: RegisterMap
    apart: int

    @property
    def capacity(self) -> int | None: ...

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        """Make memory of zeros that the engine may write, `at` a multiple of `PAGE`. Memory that
        the machine has anyway stays as it is."""

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        """Put bytes into memory. Where none is reserved at `at`, a multiple of `PAGE`, the array
        itself becomes memory that the engine can only read."""

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        """Return bytes of memory."""

    def run(
        self,
        registers: Mapping[str, int],
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        """Write registers, start the engine and wait for its end.

        Parameters: `watchdog`: cycles without a transfer after which the run is stopped; `limit`:
        most cycles (of a device: seconds); `progress`: called now and then; `feeds`: what comes
        during the run.

        Raises Hung where the run does not end, Unsupported for feeds where no ring can be filled.
        """

    def trace(self, port: int) -> list[Transfer]:
        """Return all bursts of a port in the latest run, in the order of their addresses. The
        first call begins the recording. Raises Unsupported on devices."""

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        """Change memory when `cycle` of the next run begins; an array that became memory is changed
        with it. Raises Unsupported on devices."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Closing:
    """Closed where a `with` statement ends."""

    def close(self) -> None:
        """Give back what is held; here nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Metered:
    """A machine as a workload drives it: the options of the run are set, and all starts that count are
    added up in `total`."""

    def __init__(
        self,
        machine: Machine,
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.machine = machine
        self.watchdog, self.limit, self.progress = watchdog, limit, progress
        self.capacity, self.apart = machine.capacity, machine.apart
        self.reserve, self.write, self.read = machine.reserve, machine.write, machine.read
        self.trace, self.alter = machine.trace, machine.alter
        self._cycles = self._read = self._written = 0
        self._seconds, self._counters = 0.0, Counter[str]()
        self._error: HardwareError | None = None

    def run(
        self,
        registers: Mapping[str, int],
        *,
        counted: bool = True,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        """Start the engine once. `counted`: the start is of the run, and no set-up before it, which has
        no limits."""
        if not counted:
            return self.machine.run(registers)
        before, progress = self._cycles, self.progress
        ended = self.machine.run(
            registers,
            watchdog=self.watchdog,
            limit=self.limit,
            progress=None if progress is None else lambda cycles: progress(before + cycles),
            **({"feeds": feeds} if feeds else {}),
        )
        self._cycles += ended.cycles
        self._read = self._read + ended.bytes_read
        self._written = self._written + ended.bytes_written
        self._seconds += ended.seconds
        self._counters.update(ended.counters)
        self._error = ended.error
        return ended

    @property
    def total(self) -> Ended:
        """All starts so far as one; `error` is the latest one's."""
        counters = dict(self._counters)
        return Ended(self._error, self._cycles, counters, self._read, self._written, self._seconds)
