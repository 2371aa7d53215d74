"""The table of what commands must keep apart, and a check of a schedule by the table alone.

`models.pim.schedule` places commands by rules of its own; this table is written down apart from it. The
hardware's timing check reads the same table.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .config import PimConfig
from .schedule import Command, Schedule
from .timing import HELD

#: commands of the softmax unit, and those whose distances they keep
LIKE = {"WEIGH": "REG_WRITE", "TAKE": "RESULT_READ", "TOTAL": "RESULT_READ"}
TRANSFERS_IN = ("REG_WRITE", "WRITE")
TRANSFERS_OUT = ("RESULT_READ", "READ")


@dataclass(frozen=True)
class Rule:
    """`then` comes `cycles` after `first` at the earliest."""

    first: str
    then: str
    #: where both act within one bank group ("same"), where no bank group is common ("other"), or
    #: wherever they act ("any")
    scope: str
    cycles: int
    name: str


def rules(config: PimConfig) -> list[Rule]:
    """Return a device's rules. Those of one cycle are left out: two commands never share a cycle of the bus (`check`)."""
    t = config.timing
    table = [
        Rule("ACT4", "ACT4", "any", max(t.tRRD, t.tFAW), "tFAW"),
        Rule("ACT4", "ACT4", "same", t.tRAS + t.tRP, "tRC"),
        Rule("ACT4", "COMP", "same", t.tRCD, "tRCD"),
        Rule("ACT4", "PRECHARGES", "same", t.tRAS, "tRAS"),
        Rule("PRECHARGES", "ACT4", "same", t.tRP, "tRP"),
        Rule("COMP", "COMP", "same", t.tCCD_L, "tCCD_L"),
        Rule("COMP", "PRECHARGES", "same", max(t.tRTP, t.tWR), "tWR"),
        Rule("REG_WRITE", "COMP", "same", config.transfer, "tCCD_L"),
        Rule("WRITE", "PRECHARGES", "same", t.inner_write_to_read - t.tWTR + t.tWR, "tWR"),
        Rule("READ", "PRECHARGES", "same", t.tRTP, "tRTP"),
    ]
    ended = Rule("COMP", "RESULT_READ", "same", max(t.tRTP, t.tWR) + 1, "tWR")
    table += [ended, Rule("COMP", "REG_WRITE", "same", t.tCCD_L, "tCCD_L")]
    if config.chip:  # operands come, and results leave, while units iterate
        table[-2:] = [Rule("PRECHARGES", "RESULT_READ", "same", HELD, "kept")]
    apart = max(t.burst, t.tCCD_S)
    for one in (TRANSFERS_IN, TRANSFERS_OUT):
        for a in one:
            table += [
                Rule(a, b, scope, cycles, "data bus")
                for b in one
                for scope, cycles in (("same", config.transfer), ("other", apart))
            ]
    for write in TRANSFERS_IN:
        for read in TRANSFERS_OUT:
            table += [
                Rule(write, read, "any", max(t.burst, t.tWTR), "tWTR"),
                Rule(read, write, "any", max(t.burst, t.tRTW), "tRTW"),
            ]
    for move in ("WRITE", "READ"):
        table.append(Rule("ACT4", move, "same", t.tRCD, "tRCD"))
    if not config.bank_local:
        columns = (*TRANSFERS_IN, *TRANSFERS_OUT)
        table.append(Rule("COMP", "COMP", "other", t.tCCD_S, "tCCD_S"))
        for move in columns:
            table += [
                Rule("COMP", move, "other", t.tCCD_S, "tCCD_S"),
                Rule(move, "COMP", "other", t.tCCD_S, "tCCD_S"),
            ]
    if config.refresh == "all-bank":
        table += [
            Rule("PRECHARGES", "REFab", "any", t.tRP, "tRP"),
            Rule("REFab", "ACT4", "any", t.tRFCab, "tRFCab"),
            Rule("REFab", "REFab", "any", t.tRFCab, "tRFCab"),
        ]
    if config.refresh == "per-bank":
        table += [
            Rule("PRECHARGES", "REFpb", "same", t.tRP, "tRP"),
            Rule("REFpb", "ACT4", "same", t.tRFCpb, "tRFCpb"),
            Rule("REFpb", "ACT4", "other", t.tRREFD, "tRREFD"),
            Rule("REFpb", "REFpb", "any", t.tRREFD, "tRREFD"),
            Rule("ACT4", "REFpb", "any", t.tRRD, "tRRD"),
        ]
    return [rule for rule in table if rule.cycles > 1]


def expand(schedule: Schedule) -> list[Command]:
    """Return the commands one by one: each iteration of a run as a COMP of its own, those of the softmax unit by the names of others."""
    commands = []
    for c in schedule.commands:
        for index in range(c.count):
            at = c.cycle + index * schedule.interval
            name = LIKE.get(c.name, c.name)
            commands.append(Command(at, name, c.set, c.groups, c.round, c.index + index, 1, c.row))
    return sorted(commands, key=lambda c: c.cycle)


def check(schedule: Schedule) -> list[str]:
    """Return what is wrong with a schedule; an empty list where all rules are kept."""
    config = schedule.config
    by_then: dict[str, list[Rule]] = {}
    for rule in rules(config):
        by_then.setdefault(rule.then, []).append(rule)
    wrong: list[str] = []
    latest: dict[tuple[str, int], int] = {}  # by command and bank group
    opened: set[int] = set()
    before = -1
    for command in expand(schedule):
        if not (config.chip and command.name == "COMP" and command.index):  # units go on alone
            if command.cycle == before:
                wrong.append(f"cycle {before}: two commands on the bus")
            before = command.cycle
        wrong += _early(command, by_then.get(command.name, ()), latest, config.groups)
        wrong += _state(command, opened)
        for group in command.groups:
            latest[command.name, group] = command.cycle
    return wrong


def _early(
    command: Command, table: Iterable[Rule], latest: dict[tuple[str, int], int], groups: int
) -> list[str]:
    wrong = []
    for rule in table:
        for group in range(groups):
            same_group = group in command.groups
            if same_group if rule.scope == "other" else not same_group and rule.scope == "same":
                continue
            when = latest.get((rule.first, group))
            if when is not None and command.cycle < when + rule.cycles:
                wrong.append(
                    f"cycle {command.cycle}: {command.name} {command.cycle - when} after "
                    f"{rule.first} of bank group {group}, not {rule.cycles} ({rule.name})"
                )
    return wrong


def _state(command: Command, opened: set[int]) -> list[str]:
    """Note what a command does to the rows; return what forbids it."""
    groups, name = set(command.groups), command.name
    if name in ("ACT4", "REFab", "REFpb") and groups & opened:
        return [f"cycle {command.cycle}: {name} with rows open"]
    if name in ("COMP", "READ", "WRITE") and groups - opened:
        return [f"cycle {command.cycle}: {name} with rows closed"]
    if name == "ACT4":
        opened |= groups
    if name == "PRECHARGES":
        opened -= groups
    return []
