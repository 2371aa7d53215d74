"""What a command found out: the one JSON object of it, with the same keys for every engine and command, and where runs of two backends differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from penstock.engines.design import Design
    from penstock.engines.workload import Workload
    from penstock.runs.accounts import Account
    from penstock.runs.run import Run

#: of the report's keys: report/outcome.schema.json; another number where one changes its meaning or goes
SCHEMA = 1
#: results of more values than this go to a file of their own beside the report
LARGE = 4096


def differences(golden: Run, rtl: Run) -> list[str]:
    """Return in words where two runs differ; nothing where results, facts and errors are the same
    bit for bit. Facts that a machine cannot tell are not compared; `not_compared` names them."""
    if golden.errors != rtl.errors:
        words = [str(run.errors[0]) if run.errors else "none" for run in (golden, rtl)]
        return [f"error: golden {words[0]}, RTL {words[1]}"]
    if golden.errors:
        return []
    wrong = [
        f"{name}: golden {value}, RTL {rtl.facts[name]}"
        for name, value in golden.facts.items()
        if name in rtl.facts and rtl.facts[name] != value
    ]
    mine, theirs = golden.codes or {}, rtl.codes or {}
    wrong += [
        f"{name}: golden None, RTL {theirs[name].shape}" for name in theirs if name not in mine
    ]
    for name, codes in mine.items():
        other = theirs.get(name)
        if other is None or other.shape != codes.shape:
            shape = None if other is None else other.shape
            wrong.append(f"{name}: golden {codes.shape}, RTL {shape}")
            continue
        places = np.argwhere(codes != other)
        if len(places):
            at = tuple(places[0].tolist())
            where = ", ".join(map(str, at))
            values = f"golden {int(codes[at]):#x}, RTL {int(other[at]):#x}"
            wrong.append(f"{name}: {len(places)} of {codes.size} values, first [{where}]: {values}")
    return wrong


def not_compared(golden: Run, rtl: Run) -> list[str]:
    """Return the facts of a golden run that the hardware's run does not tell."""
    if golden.errors or rtl.errors:
        return []
    return [name for name in golden.facts if name not in rtl.facts]


@dataclass
class Outcome:
    """All that is known so far; what a command did not come to stays None.

    `source`: the kernel's text; `placed`: what a build reports.
    """

    command: str
    kernel: str
    source: str = ""
    design: Design | None = None
    workload: Workload | None = None
    golden: Run | None = None
    model: Run | None = None
    rtl: Run | None = None
    folder: str | None = None
    files: dict[str, int] = field(default_factory=dict)
    placed: dict[str, Any] | None = None
    account: Account | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The name of the data."""
        return "" if self.workload is None else self.workload.name

    @property
    def rows(self) -> int | None:
        return None if self.workload is None else self.workload.rows

    @property
    def pages(self) -> int | None:
        return None if self.workload is None else self.workload.pages

    @property
    def assumed(self) -> bool:
        """Whether there is only a number of rows."""
        return self.workload is not None and self.workload.assumed

    @property
    def bit_exact(self) -> bool | None:
        """Whether golden and RTL agree; None unless both ran."""
        if self.golden is None or self.rtl is None:
            return None
        return not differences(self.golden, self.rtl)

    @property
    def cycle_exact(self) -> bool | None:
        """Whether model and RTL agree; None unless both counted a whole run."""
        if self.model is None or self.rtl is None:
            return None
        if self.model.cycles is None or self.rtl.errors:
            return None
        return self.model.cycles == self.rtl.cycles

    @property
    def cycles(self) -> int | None:
        """The run's cycles: RTL's where it ran, else the model's."""
        for run in (self.rtl, self.model):
            if run is not None and run.cycles is not None and not run.errors:
                return run.cycles
        return None

    @property
    def result(self) -> Mapping[str, np.ndarray] | None:
        """What was computed, by the hardware where it ran."""
        for run in (self.rtl, self.golden):
            if run is not None:
                return run.values
        return None

    @property
    def details(self) -> Mapping[str, Any]:
        """What else there is to say of the result."""
        return next((run.details for run in (self.rtl, self.golden) if run is not None), {})

    def to_json(self, result_file: str | None = None) -> dict[str, Any]:
        """Return the report. `result_file`: where large results are kept; without it they stand in
        the report."""
        report: dict[str, Any] = {"schema": SCHEMA, "command": self.command}
        if self.design is not None:
            report["design"] = self.design.describe()
        if self.rows is not None:
            report["table"] = {
                "name": self.table,
                "rows": self.rows,
                "pages": self.pages,
                "assumed": self.assumed,
            }
            if self.workload is not None and self.workload.drawn:
                report["table"]["drawn"] = self.workload.drawn
            used = next((r for r in (self.rtl, self.golden) if r and r.rows_used is not None), None)
            if used is not None and used.rows_used is not None:
                skipped = self.rows - used.rows_used
                report["table"] |= {"used": used.rows_used, "skipped": skipped}
            if self.workload is not None and self.workload.provenance is not None:
                report["table"]["read"] = asdict(self.workload.provenance)
        if cycles := self._cycles():
            report["cycles"] = cycles
        if self.account is not None:
            report |= self.account.to_json()
        if self.bit_exact is not None:
            report["bit_exact"] = self.bit_exact
        if self.result is not None:
            plain = {name: _plain(value.tolist()) for name, value in self.result.items()}
            report["result"] = {"file": result_file} if result_file else plain
        if self.details:
            report["details"] = self.details
        report |= self._hardware()
        runs = [run for run in (self.model, self.golden, self.rtl) if run is not None]
        counters = {name: count for run in runs for name, count in run.counters.items()}
        if counters:
            report["counters"] = counters
        report["errors"] = self.errors
        return report

    def _cycles(self) -> dict[str, Any]:
        cycles: dict[str, Any] = {}
        if self.rtl is not None and self.rtl.cycles is not None:
            cycles["rtl"] = self.rtl.cycles
        if self.model is not None and self.model.cycles is not None:
            cycles["model"] = self.model.cycles
            if self.model.bound is not None:
                cycles |= {"bound": self.model.bound.cycles, "bound_by": self.model.bound.by}
            if self.model.bound_machine is not None:
                cycles["bound_machine"] = self.model.bound_machine.cycles
        return cycles

    def _hardware(self) -> dict[str, Any]:
        """Traffic, simulation, resources and build."""
        report: dict[str, Any] = {}
        traffic = self.rtl
        if traffic is None and self.model is not None and self.model.bytes_read is not None:
            traffic = self.model
        if traffic is not None:
            report["memory"] = {
                "bytes_read": traffic.bytes_read,
                "bytes_written": traffic.bytes_written,
            }
        if self.rtl is not None:
            report["simulation"] = {
                "wall_s": self.rtl.seconds,
                "cycles_per_s": (self.rtl.cycles or 0) / max(self.rtl.seconds, 1e-9),
                "backend": "native" if self.rtl.backend == "rtl" else self.rtl.backend,
            }
        if self.design is not None and self.design.refused is None:
            need = self.design.resources
            shares = {k: round(v, 4) for k, v in need.shares(self.design.target).items() if v < inf}
            estimate = {**asdict(need), "shares": shares, "source": "estimate"}
            report["resources"] = estimate if self.placed is None else self.placed["resources"]
            if self.placed is not None:
                report["estimate"] = estimate
                report["build"] = {k: v for k, v in self.placed.items() if k != "resources"}
        return report

    @property
    def large(self) -> bool:
        """Whether the result is too large for the report."""
        return self.result is not None and sum(v.size for v in self.result.values()) > LARGE


def _plain(value: Any) -> Any:
    """JSON knows no infinities: they become the words that `float` reads."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if math.isfinite(value):
        return value
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
