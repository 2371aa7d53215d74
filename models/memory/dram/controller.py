"""A memory controller: in order, rows left open, refreshed in time. Which command goes when.

One controller has one pseudo-channel (a channel where there are none), of one rank. It takes requests
for single DRAM bursts in the order in which they arrive, and gives each its commands at once, as later
ones cannot change them:

* Column commands (RD, WR) go in the order of their requests, so do ACTs, and so do PREs. But a
  request's PRE and ACT may pass other commands of requests before it: so a row is opened while data
  of another one pass.
* A request is looked at from its arrival on, and from the cycle after the column command of the
  request `DEPTH` places before it on: so many requests the controller sees at once.
* A row stays open until another one of its bank is wanted, or a refresh comes.
* A refresh is due every tREFI cycles, the first one tREFI after the start. It goes before the first
  request whose column command could not come before it is due: all open rows are closed (PREA), all
  banks refreshed (REFab). A refresh that comes due while nothing is wanted goes then.
* A command goes in the first cycle that the table of constraints allows and in which its bus is free;
  where two commands could take the bus in one cycle, it is that of the older request.

At the start all banks are closed. Two pseudo-channels that share their command buses do not disturb
each other here: each has a cycle in two on the column bus, which is all that it can use.
"""

from typing import NamedTuple

from ...timeline import Credits
from .checker import Checker
from .organisation import Address
from .timing import Timing

#: requests that a controller sees at once
DEPTH = 32


class Issued(NamedTuple):
    """A command that went to the DRAM."""

    cycle: int
    command: str
    address: Address


class Mapping:
    """Where bytes lie: from the lowest bits of the address on, the byte in a burst, the bank group,
    the burst in the row, the bank, the row. Addresses wrap at the end of the pseudo-channel.

    So bursts that follow each other go to different bank groups, which can take them every tCCD_S.
    """

    def __init__(self, timing: Timing) -> None:
        parts = timing.organisation
        if parts.ranks > 1:
            raise ValueError(f"{timing.name}: a controller has one rank")
        self.timing = timing
        self.bursts = parts.columns // timing.beats  # of a row

    def address(self, burst: int) -> Address:
        """Return where the burst of that number lies: the byte address over the burst's bytes."""
        parts = self.timing.organisation
        rest, group = divmod(burst, parts.groups)
        rest, column = divmod(rest, self.bursts)
        rest, bank = divmod(rest, parts.banks)
        row = rest % parts.rows
        return Address(0, 0, group, bank, row, column * self.timing.beats)


class Controller:
    """The controller of one pseudo-channel, from the start on.

    `issued`: every command so far, in the order in which they were decided (not that of their cycles).
    """

    def __init__(self, timing: Timing) -> None:
        self.timing, self.mapping = timing, Mapping(timing)
        self.checker = Checker(timing, buses=False)
        self.issued: list[Issued] = []
        self.refresh = timing["nREFI"]  # when the next one is due
        self.refreshes = 0
        self._seen = Credits(DEPTH)  # of requests that are looked at
        self._latest = {"PRE": -1, "ACT": -1, "RD": -1}  # cycles of the latest ones of each kind
        # cycles in which a bus is taken; a bus of column commands alone has them in order
        self._taken: set[tuple[str, int]] = set()

    def serve(self, write: bool, arrival: int, burst: int) -> int:
        """Take a request for the burst of that number, there from cycle `arrival` on and not before
        those taken so far; return the cycle of its column command."""
        address = self.mapping.address(burst)
        begin = max(arrival, self._seen.free)
        while max(begin, self._latest["RD"]) >= self.refresh:
            self._refresh()
        row = self.checker.row(address)
        if row is not None and row != address.row:
            self._issue("PRE", "PRE", address._replace(row=row), begin)
        if row != address.row:
            self._issue("ACT", "ACT", address, begin)
        column = self._issue("RD", "WR" if write else "RD", address, begin)
        self._seen.give(column + 1)
        return column

    def _refresh(self) -> None:
        if any(
            self.checker.row(bank) is not None
            for bank in self.timing.organisation.banks_in(Address(), "rank")
        ):
            self._issue("PRE", "PREA", Address(), self.refresh)
        self._issue("PRE", "REFab", Address(), self.refresh)
        self.refresh += self.timing["nREFI"]
        self.refreshes += 1

    def _issue(self, kind: str, command: str, address: Address, begin: int) -> int:
        """Issue a command in the first cycle from `begin` on, after the latest one of its kind."""
        what = self.checker.commands[command]
        cycle = self.checker.earliest(command, address, max(begin, self._latest[kind] + 1))
        while any((what.bus, cycle - k) in self._taken for k in range(what.cycles)):
            cycle += 1
        self._taken.update((what.bus, cycle - k) for k in range(what.cycles))
        self.checker.note(command, address, cycle)
        self._latest[kind] = cycle
        self.issued.append(Issued(cycle, command, address))
        return cycle
