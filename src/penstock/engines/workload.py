"""What an engine runs: what a user gave, a design with one input, its results and its cycles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes, Format

if TYPE_CHECKING:
    import numpy as np

    from penstock.data.tables import RowError
    from penstock.host.sources import Provenance
    from penstock.runs.failures import Failure
    from penstock.sim.machine import Metered


@dataclass(frozen=True)
class Given:
    """What a user gave beside the kernel and the target.

    `data`: a table, or whatever the engine runs on; a text for data that are made when their sizes
    are known (`random:…`); `source`: what `data` was opened from, as it was given; `rows`: so many assumed,
    without data; `options`: the engine's own by name, those that were not given are absent.
    """

    data: Any = field(default=None, metadata={"outside": True})
    source: Any = field(default=None, metadata={"outside": True})
    rows: int | None = None
    seed: int | None = None
    format: str | Format | None = None
    memory: str | Memory | None = None
    link: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """What messages call the source, None without one."""
        if self.source is None or isinstance(self.source, str):
            return self.source
        return "table"

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option of the engine's own."""
        value = self.options.get(name)
        return default if value is None else value


class Bound(Protocol):
    """The least cycles that a run can take, and the term that says so."""

    @property
    def cycles(self) -> int: ...

    @property
    def by(self) -> str: ...


@dataclass(frozen=True)
class Result:
    """What a run computed. Two results are compared whole (`penstock.runs.outcome.differences`).

    `codes`: named arrays of codes, None after an error; `facts`: what else must be equal, such as
    the number of epochs or the digest of a port's traffic; `counters`: what is only reported.
    """

    codes: Mapping[str, Codes] | None
    error: HardwareError | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cycles:
    """What the cycle model says of a run. `total` is exact; None after an error in the data.

    `bound`: the plan's, `bound_machine`: no plan's can be faster.
    """

    total: int | None
    bound: Bound | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    bytes_read: int | None = None
    bytes_written: int | None = None
    error: HardwareError | None = None
    bound_machine: Bound | None = None


class Workload(ABC):
    """A design with one input. Every backend carries out the same run.

    `name`, `rows`, `pages`: of the data, for reports (None where there are none); `assumed`: the
    data are not there, only their number; `watchdog`: cycles without a transfer after which the
    hardware has hung.
    """

    name: str = ""
    rows: int | None = None
    pages: int | None = None
    assumed: bool = False
    #: what of assumed data is drawn, how, and with which seed; "" where nothing is
    drawn: str = ""
    watchdog: int = 1_000_000
    #: what the vault gives, of a design that has one (`models.shell.VaultValue`)
    vault: Mapping[str, int] | None = None
    #: cycles of runs that set a machine up, which are not counted
    set_up = 0
    #: the cycle model computes the results anyway, so that its report shows them
    results_with_model: bool = False

    @property
    def provenance(self) -> Provenance | None:
        """How a server's table was read."""
        return getattr(getattr(self, "table", None), "provenance", None)

    @abstractmethod
    def golden(self) -> Result:
        """Return the results, bit for bit, or the error that ends the run."""

    @abstractmethod
    def model(self, memory: Memory) -> Cycles:
        """Return the exact cycles of the run with memory of this timing behind the ports."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return the bytes of memory that the run takes, a multiple of 4096."""

    def device_bytes(self) -> int:
        """Return the bytes that a run takes of the target's own memory: all of them, unless an engine's host keeps some."""
        return self.memory_bytes()

    @property
    def names(self) -> Mapping[str, Any] | None:
        """As `Design.names`, where only the data say it; else None."""
        return None

    #: bytes that come over the link while a run goes on (`models.ring`)
    streamed: int = 0

    #: bytes of a row's values, as a host without Striders would send them; 0 where there are none
    value_bytes: int = 0

    def moved(self) -> tuple[int, int]:
        """Return the bytes that the link carries: into memory before the run, and its results. (0, 0) where the run's own ports carry them."""
        return self.memory_bytes(), 0

    @abstractmethod
    def drive(self, machine: Metered) -> Result:
        """Carry the run out on a machine: all its starts."""

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return the result as the user's numbers: the codes as they are unless an engine says
        otherwise."""
        return {name: value.astype("f8") for name, value in codes.items()}

    def details(self, codes: Mapping[str, Codes]) -> Mapping[str, Any]:
        """Return what else there is to say of a result, for reports, as JSON has it."""
        return {}

    def unreadable(self) -> HardwareError | None:
        """Return the first thing wrong with the data that every run would end with, found without a
        run; None where there is nothing, or where only a run can tell."""
        return None

    def row_error(self, error: HardwareError) -> RowError | None:
        """Return the error as one of a row, by its number in data that were packed here; None where
        it is about none."""
        return None

    def failure(self, error: HardwareError) -> Failure:
        """Return what an error means to the user who gave the data."""
        from penstock.runs.failures import hardware_failure

        return hardware_failure(error, self.name or "the workload")


class AssumedRows(Workload):
    """A run on rows that are only assumed: it has cycles, but no results."""

    assumed = True

    def golden(self) -> Result:
        raise ValueError("assumed rows have no values")

    def drive(self, machine: Metered) -> Result:
        return self.golden()
