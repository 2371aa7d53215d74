"""`penstock export`."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.commandline import BUS, OUTPUT, Command, grouped, parameters
from penstock.cli.state import State
from penstock.engines.options import Bits, Once

#: a run is recorded, so the options are those of the command that runs
_AS = "simulate"


@click.pass_obj
def _export(state: State, **values: Any) -> None:
    """Write a kernel's hardware as a core for other projects, with a bench that needs no Python.

    Verilog under one name, registers in SystemRDL, a driver in C, vectors of a run on the data of --data
    (random ones without), waves and constraints.
    """
    rest = state.begin("export", values, options=_AS)
    from penstock.commands.job import Job
    from penstock.export.exporter import Extras, checked, exported, recorded
    from penstock.output import write_folder

    folder, ip, targets = Path(rest["out"]), rest["ip"], rest["flows"]
    extras = Extras.of(rest["html"], rest["axi_prot"], rest["axi_cache"])
    checked(folder, ip, targets)
    job = Job.begin(state, _AS).opened()
    design = job.compile()
    job.warn()
    with state.steps.step("recording a run"):
        bench = recorded(design, job.args)
    with state.steps.step("writing the core"):
        files = exported(design, ip, targets, bench, Path(job.kernel.file).name, extras)
    write_folder(folder, files)
    state.record.folder = str(folder)
    state.record.files = {name: len(data) for name, data in files.items() if "/html/" not in name}
    state.show(job.engine.sections(state.record))


@grouped("Core")
def _own() -> list[click.Parameter]:
    return [
        Once(
            ("--ip",),
            required=True,
            metavar="NAME",
            help="What the core is called: a lower-case letter, then up to 30 of a to z, 0 to 9 and _.",
        ),
        click.Option(
            ("--for", "flows"),
            multiple=True,
            metavar="FLOW",
            help="What it is for besides plain, which is always in: fusesoc, litex, vivado. Repeatable.",
        ),
        click.Option(
            ("--html",), is_flag=True, help="The registers as a page as well: 8 MB with its fonts."
        ),
        Once(
            ("--axi-prot",),
            type=Bits(),
            metavar="0b000",
            help="Memory ports have AxPROT with this value, and AxCACHE.  [default: no such ports]",
        ),
        Once(
            ("--axi-cache",),
            type=Bits(),
            metavar="0b0011",
            help="Memory ports have AxCACHE with this value, and AxPROT.  [default: no such ports]",
        ),
        Once(
            ("--out",),
            required=True,
            metavar="DIR",
            help="Folder for the core; made whole or not at all.",
        ),
    ]


COMMANDS = (Command("export", _export, parameters(_AS, BUS, OUTPUT, _own)),)
