"""`penstock simulate`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import BUS, OUTPUT, REPORT, Command, grouped, parameters
from penstock.cli.state import State
from penstock.commands.costs import COSTS, check_costs, costs
from penstock.engines.options import TRUST, Once
from penstock.errors import Conflict
from penstock.targets import target_named

if TYPE_CHECKING:
    from penstock.commands.job import Job
    from penstock.engines.base import Design
    from penstock.host.device.device import Device
    from penstock.models.memory import Memory
    from penstock.runs.run import Run


@dataclass(frozen=True)
class How:
    """How to run: the backend, and what belongs to it."""

    backend: str
    family: str | None
    device: str | None
    waves: str | None
    trust: bool = False

    def check(self, job: Job) -> None:
        """Raise Conflict for options that do not go with the backend, E904 without data."""
        from penstock.dsl.core.diagnostics import Span, error
        from penstock.output import check_file
        from penstock.runs.run import WAVES

        if self.family is not None and self.backend != "netlist":
            hint = "add --backend netlist, or leave --family out"
            raise Conflict("--family is for --backend netlist", hint)
        if self.device is not None and self.backend != "board":
            hint = "add --backend board, or leave --device out"
            raise Conflict("--device is for --backend board", hint)
        if self.trust and self.device is None:
            raise Conflict("--trust is for --device sim:DIR", "leave --trust out")
        backends = job.engine.backends
        if backends is not None and self.backend not in backends:
            known = ", ".join(sorted(backends))
            message = f"the engine {job.engine.name} has no backend {self.backend}"
            raise Conflict(message, f"it has {known}")
        if job.args.source is None and not job.engine.data_optional:
            raise error(
                "E904",
                f"simulate needs {job.engine.needs(job.kernel)}",
                Span.whole("penstock simulate"),
                hint="give --data SRC, for example --data random:rows=1000",
            )
        if self.waves is not None:
            if self.backend not in WAVES:
                hint = f"leave --waves or --backend {self.backend} out"
                raise Conflict("--waves is for the engine alone", hint)
            check_file(self.waves)
            if Path(self.waves).suffix.lower() not in WAVES[self.backend]:
                kinds = " or as ".join(s[1:].upper() for s in WAVES[self.backend])
                message = f"--waves {self.waves}: waves are written as {kinds}"
                hint = f"write --waves {Path(self.waves).stem}{WAVES[self.backend][0]}"
                raise Conflict(f"{message}, and the file's suffix says which", hint)


@click.pass_obj
def _simulate(state: State, **values: Any) -> int:
    """Run the hardware in simulation and compare it with the golden model and the cycle model."""
    rest = state.begin("simulate", values)
    from penstock.commands.job import Job
    from penstock.runs.run import golden, model

    how = How(rest["backend"] or "rtl", *(rest[n] for n in ("family", "device", "waves", "trust")))
    job, outcome, steps = Job.begin(state, "simulate"), state.record, state.steps
    how.check(job)
    job.check_profile(rest["profile"])
    job = job.opened()
    design = _compiled(job, how)
    job.warn()
    if how.backend != "golden":
        design.check_hardware()
    workload_of = design.workload if how.backend == "golden" else design.held
    outcome.workload = workload = workload_of(job.args)
    check_costs(job, workload, rest)
    with steps.step("golden run"):
        outcome.golden = golden(workload)
    timing = _timing(design, how)
    if how.backend != "golden" and timing is not None and not outcome.golden.errors:
        if how.backend == "board":
            outcome.design = replace(design, memory=timing)  # what the report names
        with steps.step("cycle model"):
            outcome.model = model(workload, timing)
    if how.backend not in ("golden", "model"):
        outcome.rtl = run_hardware(state, design, how)
    state.show(job.engine.sections(outcome))
    if rest["profile"] and outcome.model is not None:
        state.show(job.engine.profile(outcome))
    costs(job, rest)
    return verdict(state)


def _compiled(job: Job, how: How) -> Design:
    """Return the design; for a device of a board what `penstock build` makes for it, or what `penstock compile` does if that device runs it."""
    asked = job.state.asked.target
    if how.backend == "board" and asked is not None:
        board = target_named(asked)
        if board.board is not None:
            from penstock.commands.boards import compile_for
            from penstock.runs.devices import running

            board_design = compile_for(job, board)
            if how.device is None:
                return board_design
            shown = running(how.device, baud=board.link.baud or None, trust=how.trust)
            if shown == board_design.registers.design:
                return board_design
            plain = job.compile()
            return plain if shown == plain.registers.design else compile_for(job, board)
    design = job.compile()
    if how.backend == "netlist":
        from penstock.runs.netlists import family_of

        family_of(design.target, how.family)  # said before anything takes long
    return design


def _timing(design: Design, how: How) -> Memory | None:
    """Return the timing of the memory that the run has, None where no model of it is exact."""
    if how.backend != "board":
        return design.memory
    kind, target = design.device_memory[0], design.target
    if how.device is not None or (target.board is not None and target.memory.kind == "SDRAM"):
        kind = target.memory.kind if target.board is not None else ""
    return design.device_timing(kind)


def _device(design: Design, url: str, trust: bool) -> Device:
    from penstock.runs.devices import open_device

    baud = design.target.link.baud or None
    return open_device(url, register_map=design.registers, baud=baud, trust=trust)


def run_hardware(state: State, design: Design, how: How) -> Run:
    from penstock.runs.run import hardware

    outcome, steps = state.record, state.steps
    workload = outcome.workload
    assert workload is not None
    options: dict[str, Any] = {}
    total = outcome.model.cycles if outcome.model is not None else None
    if how.backend in ("rtl", "netlist"):
        with steps.step("Verilog"):
            lines = design.verilog.count("\n")  # made once, here
    if how.backend == "rtl":
        from penstock.sim.native import level

        cycles = None if total is None else total + workload.set_up
        options["optimise"] = level(cycles, lines)
    if how.backend == "netlist":
        options["family"] = how.family
        with steps.step("synthesis (Yosys)"):
            design.netlist(how.family)
    if how.waves is not None:
        options["waves"] = how.waves
    with ExitStack() as stack:
        if how.device is not None:
            options["device"] = stack.enter_context(_device(design, how.device, how.trust))
        with steps.step("building the simulation"):
            needed = workload.memory_bytes()
            options["vault"] = workload.vault
            machine = stack.enter_context(design.machine(how.backend, needed, **options))
        with steps.step("simulating", total) as advance:
            return hardware(how.backend, workload, machine, progress=advance)


def verdict(state: State) -> int:
    """Say whether the backends agree; return the exit code."""
    from penstock.runs.failures import DISAGREE
    from penstock.runs.outcome import differences

    outcome = state.record
    assert outcome.golden is not None and outcome.workload is not None
    runs = [run for run in (outcome.rtl, outcome.golden) if run is not None and run.errors]
    wrong = [] if outcome.rtl is None else differences(outcome.golden, outcome.rtl)
    if outcome.cycle_exact is False and outcome.model is not None and outcome.rtl is not None:
        model, rtl = outcome.model.cycles, outcome.rtl.cycles
        wrong.append(f"cycles: model {model:,}, RTL {rtl:,}")
    if runs:
        code = state.stop(outcome.workload.failure(runs[0].errors[0]))
        if not wrong:
            return code
    if not wrong:
        return 0
    outcome.errors += [{"code": "DISAGREE", "message": text, "address": ""} for text in wrong]
    state.say(
        "error: backends disagree: "
        + "; ".join(wrong)
        + "\nhint: this is a defect in Penstock: please report it with the command, its input "
        "and `penstock --version`"
    )
    return DISAGREE


@grouped("Simulation")
def _own() -> list[click.Parameter]:
    from penstock.runs.run import BACKENDS

    backend = (
        "What runs: the engine alone (rtl), the engine as it is synthesised (netlist), the whole "
        "device of a board, from its serial pins inwards (board), the engine in Amaranth's "
        "simulator (pysim), or the golden model alone or beside the cycle model.  [default: rtl]"
    )
    family = "With --backend netlist: whose cells: ecp5, ice40, gowin.  [default: the target's]"
    device = "With --backend board: a board that is connected, as in serial:/dev/ttyUSB0."
    return [
        Once(("--backend",), type=click.Choice(BACKENDS), help=backend),
        Once(("--family",), metavar="F", help=family),
        Once(("--device",), metavar="URL", help=device),
        Once(("--waves",), metavar="FILE", help="Write the run's waves (large; for short runs)."),
        click.Option(("--profile",), is_flag=True, help="Show what each line costs."),
        TRUST(),
    ]


COMMANDS = (
    Command("simulate", _simulate, parameters("simulate", BUS, COSTS, OUTPUT, REPORT, _own)),
)
