"""The rules of a DRAM, command by command: when the next one may come, and whether one that came was right.

The controller asks it for the cycle of every command, so the rules of `commands` are the memory's timing.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from .commands import ALIASES, Command, Constraint, commands_of, constraints_of
from .organisation import Address
from .timing import Timing


class Broken(AssertionError):
    """A command came too early, or to a bank in the wrong state."""


class Checker:
    """Keeps what was issued to a DRAM, and says the first legal cycle of what comes next.

    Cycles are those of the DRAM's command clock; commands are issued in the order of their cycles.
    A DRAM begins with all banks closed and nothing issued.

    * `timing`: which DRAM.
    * `commands`, `constraints`: further commands, or others of the same name, and what must be kept between
      them and others, beside the DRAM's own table. A constraint that names no command is an error.
    * `buses`: whether a command bus carries one command at a time.
    """

    def __init__(
        self,
        timing: Timing,
        *,
        commands: Iterable[Command] = (),
        constraints: Iterable[Constraint] = (),
        buses: bool = True,
    ) -> None:
        self.timing, self.organisation = timing, timing.organisation
        self.commands: Mapping[str, Command] = {
            **commands_of(timing),
            **{command.name: command for command in commands},
        }
        table = [*constraints_of(timing), *constraints]
        self.constraints = [c for c in table if buses or not c.name.endswith(" bus")]
        self._before: dict[str, list[Constraint]] = {name: [] for name in self.commands}
        self._depth: dict[tuple[str, str], int] = {}
        for constraint in self.constraints:
            for name in (constraint.first, constraint.then):
                if name not in self.commands:
                    raise ValueError(f"{constraint}: there is no command {name}")
            self._before[constraint.then].append(constraint)
            key = constraint.first, constraint.level
            self._depth[key] = max(self._depth.get(key, 1), constraint.window)
        self._levels = {
            name: [level for first, level in self._depth if first == name] for name in self.commands
        }
        # cycles of the latest commands by their name, the level, and which one of that level
        self._issued: dict[tuple[str, str], dict[tuple[int, ...], deque[int]]] = {
            key: {} for key in self._depth
        }
        self._open: dict[tuple[int, ...], int] = {}
        self.cycle = -1  #: of the latest command
        self.count = dict.fromkeys(self.commands, 0)  #: commands issued, by name

    # what comes next

    def earliest(self, command: str, address: tuple[int, ...] | None = None, cycle: int = 0) -> int:
        """Return the first cycle from `cycle` on in which a command may come, by the table alone:
        what state its banks are in is `wrong`'s. Raises ValueError for what there is not."""
        return self._first(command, address, cycle)[0]

    def binding(self, command: str, address: tuple[int, ...] | None = None) -> Constraint | None:
        """Return the constraint that says the first legal cycle; None where nothing holds it."""
        return self._first(command, address, 0)[1]

    def _first(
        self, command: str, address: tuple[int, ...] | None, cycle: int
    ) -> tuple[int, Constraint | None]:
        first, by = cycle, None
        banks = self._banks(command, address)
        command = ALIASES.get(command, command)
        for constraint in self._before[command]:
            issued = self._issued[constraint.first, constraint.level]
            seen: set[tuple[int, ...]] = set()
            for bank in banks:
                here = bank.within(constraint.level)
                if here in seen:
                    continue
                seen.add(here)
                if constraint.other:
                    histories = [
                        when
                        for place, when in issued.items()
                        if place[:-1] == here[:-1] and place != here
                    ]
                else:
                    histories = [issued[here]] if here in issued else []
                for cycles in histories:
                    if len(cycles) >= constraint.window:
                        legal = cycles[-constraint.window] + constraint.cycles
                        if legal > first:
                            first, by = legal, constraint
        return first, by

    def _banks(self, command: str, address: tuple[int, ...] | None) -> list[Address]:
        command = ALIASES.get(command, command)
        if command not in self.commands:
            known = ", ".join(self.commands)
            raise ValueError(f"{self.timing.name} has no command {command!r}; it has {known}")
        place = Address(*(address or ()))
        if not self.organisation.holds(place):
            raise ValueError(f"{self.timing.name} has no {place}")
        return list(self.organisation.banks_in(place, self.commands[command].acts_on))

    def wrong(self, command: str, address: tuple[int, ...] | None = None) -> str | None:
        """Return why the banks' state forbids a command, None where it does not."""
        place = Address(*(address or ()))
        banks = self._banks(command, place)
        needs = self.commands[ALIASES.get(command, command)].needs
        for bank in banks:
            row = self._open.get(bank.within("bank"))
            where = f"bank {bank.group * self.organisation.banks + bank.bank}"
            if needs == "closed" and row is not None:
                return f"{where} is open"
            if needs == "open" and row is None:
                return f"{where} is closed"
            if needs == "open" and row != place.row:
                return f"{where} has row {row} open, not {place.row}"
        return None

    # what came

    def issue(self, command: str, address: tuple[int, ...] | None = None, cycle: int = 0) -> None:
        """Note a command in its cycle.

        Raises Broken where it comes too early or the state of its banks forbids it, ValueError for
        what there is not.
        """
        first, by = self._first(command, address, 0)
        if cycle < self.cycle:
            raise ValueError(f"{command} in cycle {cycle} comes after one in cycle {self.cycle}")
        if cycle < first:
            raise Broken(f"cycle {cycle}: {command} may come in cycle {first} ({by})")
        if why := self.wrong(command, address):
            raise Broken(f"cycle {cycle}: {command}: {why}")
        self.note(command, address, cycle)

    def note(self, command: str, address: tuple[int, ...] | None = None, cycle: int = 0) -> None:
        """Note a command in its cycle, whether it was right or not."""
        command = ALIASES.get(command, command)
        what, place = self.commands[command], Address(*(address or ()))
        banks = self._banks(command, place)
        for level in self._levels[command]:
            issued, window = self._issued[command, level], self._depth[command, level]
            for here in {bank.within(level) for bank in banks}:
                issued.setdefault(here, deque(maxlen=window)).append(cycle)
        for bank in banks:
            if what.leaves == "open":
                self._open[bank.within("bank")] = place.row
            elif what.leaves == "closed":
                self._open.pop(bank.within("bank"), None)
        self.cycle = max(self.cycle, cycle)
        self.count[command] += 1

    def row(self, address: tuple[int, ...]) -> int | None:
        """Return the row that is open in a bank, None where it is closed."""
        return self._open.get(Address(*address).within("bank"))
