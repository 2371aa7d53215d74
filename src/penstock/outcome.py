"""What a command found out, and the one JSON object that says it (the same keys for every engine and command)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from penstock.design import Design, Run
    from penstock.fit_columns import ColumnsDesign
    from penstock.fits import FitDesign

__all__ = ["Outcome", "differences"]

#: results of more values than this go to a file of their own beside the report
LARGE = 4096


def differences(golden: Run, rtl: Run) -> list[str]:
    """Return in words where two runs differ; nothing where models, epochs and errors are the same bit for bit."""
    found = []
    if golden.errors != rtl.errors:
        words = [str(run.errors[0]) if run.errors else "none" for run in (golden, rtl)]
        return [f"error: golden {words[0]}, RTL {words[1]}"]
    if golden.codes is None or rtl.codes is None:
        return []
    if (golden.epochs, golden.converged) != (rtl.epochs, rtl.converged):
        found.append(f"epochs: golden {golden.epochs}, RTL {rtl.epochs}")
    for name, codes in golden.codes.items():
        other = rtl.codes[name]
        wrong = np.argwhere(codes != other)
        if len(wrong):
            at = tuple(wrong[0].tolist())
            found.append(f"{name}: {len(wrong)} of {codes.size} values, first [{', '.join(map(str, at))}]: "
                         f"golden {int(codes[at]):#x}, RTL {int(other[at]):#x}")
    return found


@dataclass
class Outcome:
    """All that is known so far; what a command did not come to stays None."""

    command: str
    kernel: str
    design: Design | None = None
    fits: FitDesign | ColumnsDesign | None = None           #: a fit kernel's design, in place of `design`
    table: str = ""
    rows: int | None = None
    pages: int | None = None
    assumed: bool = False
    golden: Run | None = None
    model: Run | None = None
    rtl: Run | None = None
    folder: str | None = None
    files: dict[str, int] = field(default_factory=dict)
    placed: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bit_exact(self) -> bool | None:
        """Whether golden and RTL agree; None unless both ran."""
        if self.golden is None or self.rtl is None:
            return None
        return not differences(self.golden, self.rtl)

    @property
    def cycle_exact(self) -> bool | None:
        """Whether model and RTL agree; None unless both counted a whole run."""
        if self.model is None or self.rtl is None or self.model.cycles is None or self.rtl.errors:
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
        """The trained models, by the hardware where it ran."""
        for run in (self.rtl, self.golden):
            if run is not None:
                return run.result
        return None

    def to_json(self, result_file: str | None = None) -> dict[str, Any]:
        """Return the report. `result_file`: where large results are kept; without it they stand in the report."""
        out: dict[str, Any] = {"command": self.command}
        made = self.design or self.fits
        if made is not None:
            out["design"] = made.describe()
        if self.rows is not None:
            out["table"] = {"name": self.table, "rows": self.rows, "pages": self.pages, "assumed": self.assumed}
        cycles: dict[str, Any] = {}
        if self.rtl is not None and self.rtl.cycles is not None:
            cycles["rtl"] = self.rtl.cycles
        if self.model is not None and self.model.cycles is not None:
            cycles["model"] = self.model.cycles
            if self.model.bound is not None:
                cycles |= {"bound": self.model.bound.cycles, "bound_by": self.model.bound.by}
        if cycles:
            out["cycles"] = cycles
        if self.bit_exact is not None:
            out["bit_exact"] = self.bit_exact
        if self.result is not None:
            out["result"] = {"file": result_file} if result_file else {name: _plain(value.tolist()) for name, value in self.result.items()}
        if self.rtl is not None:
            out["memory"] = {"bytes_read": self.rtl.bytes_read, "bytes_written": self.rtl.bytes_written}
        elif self.model is not None and self.model.bytes_read is not None:
            out["memory"] = {"bytes_read": self.model.bytes_read, "bytes_written": self.model.bytes_written}
        if self.rtl is not None:
            out["simulation"] = {"wall_s": self.rtl.seconds, "cycles_per_s": (self.rtl.cycles or 0) / max(self.rtl.seconds, 1e-9),
                                 "backend": "native" if self.rtl.backend == "rtl" else self.rtl.backend}
        if made is not None:
            estimate = {**asdict(made.resources), "source": "estimate"}
            out["resources"] = estimate if self.placed is None else self.placed["resources"]
            if self.placed is not None:
                out["estimate"], out["build"] = estimate, {k: v for k, v in self.placed.items() if k != "resources"}
        counters = {**(self.model.counters if self.model else {}), **(self.golden.counters if self.golden else {}), **(self.rtl.counters if self.rtl else {})}
        if counters:
            out["counters"] = counters
        out["errors"] = self.errors
        return out

    @property
    def large(self) -> bool:
        """Whether the result is too large for the report."""
        return self.result is not None and sum(value.size for value in self.result.values()) > LARGE


def _plain(value: Any) -> Any:
    """JSON knows no infinities: they become the words that `float` reads."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
