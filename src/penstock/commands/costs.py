"""What a run costs from disk to result, for the commands that predict or simulate one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import grouped
from penstock.engines.options import Number, Once
from penstock.targets import link_named

if TYPE_CHECKING:
    from penstock.commands.job import Job
    from penstock.engines.base import Workload
    from penstock.host.peers import Measured
    from penstock.report.parts import Facts
    from penstock.runs.accounts import Account, TargetFacts


@grouped("Costs beside the engine")
def COSTS() -> list[click.Parameter]:
    return [
        Once(
            ("--disk",),
            metavar="KIND",
            help="Count the table's way from a disk too, as in gbps=24,latency=100us.  [default: the table is in the host's memory]",
        ),
        click.Option(
            ("--no-striders",),
            is_flag=True,
            help="Count a host that reads the pages, at our decoder's rate, and sends values.",
        ),
        Once(
            ("--beside",),
            type=click.Choice(["cpu"]),
            help="Run the same work in C and in NumPy on this CPU, and say whether hardware is worth it.",
        ),
        Once(
            ("--worth",),
            type=Number(1, min_open=False),
            metavar="X",
            help="Times faster than the best peer that is worth it.  [default: 1.5]",
        ),
        Once(
            ("--cpu-watts",),
            type=Number(0, min_open=True),
            metavar="W",
            help="The CPU's watts, where they cannot be measured.",
        ),
    ]


def check_costs(job: Job, workload: Workload, rest: dict[str, Any]) -> None:
    """Raise what can be said of the options before the run: KernelError (E604) for a link or a disk that is none,
    Conflict for --disk and --no-striders where no table is read."""
    from penstock.errors import Conflict
    from penstock.host.sources import Table

    disk = rest["disk"]
    for text, place in ((job.args.link, "--link"), (disk, "--disk")):
        if text is not None:
            link_named(text, place)
    if disk is not None and not workload.moved()[0]:
        what = (
            f"--disk {disk}: a run of the engine {job.engine.name} reads no table before it begins"
        )
        raise Conflict(what, "leave --disk out")
    table = getattr(workload, "table", None)
    if rest["no_striders"] and not (isinstance(table, Table) and workload.value_bytes):
        what = "--no-striders is for a kernel that reads the pages of a table, which --data gives"
        raise Conflict(what, "give --data SRC, for example --data random:rows=1000")


def costs(job: Job, rest: dict[str, Any]) -> None:
    """Put on record, and print, what the run on record costs; `rest`: the values of `COSTS`."""
    from penstock.report.parts import Row
    from penstock.runs.accounts import Moved, account, decoded, machine_of
    from penstock.runs.rings import WAITS

    outcome = job.state.record
    design, workload, model = outcome.design, outcome.workload, outcome.model
    if outcome.cycles is None or design is None or workload is None or model is None:
        return
    table = getattr(workload, "table", None) if rest["no_striders"] else None
    host = None if table is None else decoded(table, workload.value_bytes)
    moved = Moved(*workload.moved(), host, workload.streamed)
    watts = rest["cpu_watts"]
    measured = [replace(m, watts=watts) for m in _measured(job, rest["beside"])]
    worth = {} if rest["worth"] is None else {"worth": rest["worth"]}
    machine = machine_of(design.target, design.resources, job.args.link)
    cost = account(
        outcome.cycles,
        machine,
        moved,
        design.memory,
        model.commands,
        disk=None if rest["disk"] is None else link_named(rest["disk"], "--disk"),
        beside=measured,
        waits=model.counters.get(WAITS, 0),
        **worth,
    )
    outcome.account = cost
    on_board = outcome.rtl is not None and outcome.rtl.backend == "board"
    facts = _facts(cost, machine, "" if on_board else design.uncounted)
    unknown = []
    if moved.over_link and machine.link is None:
        what = f"{moved.over_link:,} bytes, not counted: the target has no link (--link)"
        unknown.append(Row("link", what))
    if not design.target.memory.bytes and (taken := workload.device_bytes()):
        unknown.append(Row("memory", f"{taken:,} bytes; the target does not say how many it has"))
    job.state.show((replace(facts, rows=(*unknown, *facts.rows)),))


def _measured(job: Job, beside: str | None) -> list[Measured]:
    """Run the peers. Raises Conflict where the engine has none for this run."""
    from penstock.errors import Conflict
    from penstock.host.peers import measure

    if beside is None:
        return []
    run = job.state.record.golden or job.state.record.model
    assert run is not None
    peers, left_out = job.engine.peers(job.kernel, job.args, job.state.record, run.epochs)
    for reason in left_out:
        job.state.say(f"note: {reason}")
    if not peers:
        what = f"--beside {beside}: the engine {job.engine.name} has no peers of this run"
        raise Conflict(what, "leave it out, or give --data SRC")
    measurements = []
    for peer in peers:
        with job.state.steps.step(f"beside: {peer.name}"):
            measurements += measure(peer)
    return measurements


def _facts(account: Account, machine: TargetFacts, uncounted: str) -> Facts:
    from penstock.host.peers import joules
    from penstock.report.parts import Facts, Row
    from penstock.report.words import amount, grams_text, seconds_text

    rows = []
    for name, value in account.seconds.streams.items():
        clock = f"{machine.clock_mhz:g} MHz ({machine.clock_evidence})"
        if uncounted:
            what = f" without {uncounted}, at {clock}"
        else:
            waits = f", as pages come (it waits {seconds_text(float(account.seconds.waits))})"
            what = (f"{waits}, estimated, at " if account.streamed else ", exact at ") + clock
        rows.append(
            Row(name, seconds_text(float(value)) + (what if name == "engine" else ", estimated"))
        )
    rows.append(
        Row("total", f"{seconds_text(float(account.seconds.total))}; {account.seconds.binds} binds")
    )
    spent = account.energy.joules
    if spent is None:
        rows.append(Row("energy", f"not known: {'; '.join(account.energy.sources)}"))
    else:
        most = account.energy.ceiling
        at_most = "" if most is None else f", at most {amount(most)} J"
        rows.append(Row("energy", f"{amount(spent)} J, estimated{at_most}"))
    if account.carbon is not None:
        rows.append(
            Row(
                "carbon",
                f"{grams_text(account.carbon.kg * 1000)} CO2, estimated; {account.carbon.made.source}",
            )
        )
    for each in account.beside:
        took = joules(each)
        power = took.source if took.value is None else f"{amount(took.value)} J ({took.source})"
        rows.append(Row("beside", f"{each.beside()}; energy {power}"))
    if account.verdict is not None:
        rows.append(Row("verdict", account.verdict.text))
    return Facts(tuple(rows), title="from disk to result")
