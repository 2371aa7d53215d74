"""Parts of reports that are alike for every engine."""

from __future__ import annotations

from penstock.outcome import Outcome, differences, not_compared

from .rows import Facts, Row, Verdict
from .words import amount, rate, resource_text, seconds_text

__all__ = ["agreement", "cycle_rows", "resources", "speed_rows", "written"]


def _hardware(outcome: Outcome) -> str:
    """Return what ran, as rows call it."""
    assert outcome.rtl is not None
    return "netlist" if outcome.rtl.backend == "netlist" else "RTL"


def agreement(outcome: Outcome) -> list[Row]:
    """Return whether golden and cycle model are what the hardware did, where it ran."""
    rows = []
    if outcome.golden is not None and outcome.rtl is not None:
        wrong = differences(outcome.golden, outcome.rtl)
        if outcome.rtl.errors:
            same = f"both stop with {outcome.rtl.errors[0].code.name}"
        else:
            same = "bit for bit"
        text = "; ".join(wrong) if wrong else same
        rows.append(Row(f"golden = {_hardware(outcome)}", Verdict(not wrong, text)))
        if missing := not_compared(outcome.golden, outcome.rtl):
            rows.append(Row("not compared", f"{', '.join(missing)}: the hardware does not tell"))
    if outcome.cycle_exact is not None:
        assert outcome.model is not None and outcome.rtl is not None
        both = f"{outcome.rtl.cycles:,} cycles both"
        if not outcome.cycle_exact:
            both = f"model {outcome.model.cycles:,}, {_hardware(outcome)} {outcome.rtl.cycles:,} cycles"
        rows.append(Row(f"model = {_hardware(outcome)}", Verdict(outcome.cycle_exact, both)))
    return rows


def cycle_rows(outcome: Outcome, clock: bool = False) -> list[Row]:
    """Return the cycles, and what limits them; `clock`: with the time that they take."""
    cycles = outcome.cycles
    if cycles is None or outcome.design is None:
        return []
    mhz = outcome.design.target.clock_mhz
    time = f", {seconds_text(cycles / mhz / 1e6)} at {amount(mhz)} MHz" if clock else ""
    rows = [Row("cycles", f"{cycles:,}{time}")]
    limits = outcome.model.bound if outcome.model is not None else None
    if limits is not None and limits.cycles:
        ratio = f"cycles ÷ bound = {cycles / limits.cycles:.3f}"
        rows.append(Row("bound", f"{limits.cycles:,} by {limits.by}; {ratio}"))
    return rows


def speed_rows(outcome: Outcome) -> list[Row]:
    """Return how long the simulation, or the prediction, took."""
    if outcome.rtl is not None:
        run = outcome.rtl
        per_second = rate((run.cycles or 0) / max(run.seconds, 1e-9))
        return [Row("simulated in", f"{seconds_text(run.seconds)}, {per_second} cycles/s")]
    if outcome.model is not None:
        return [Row("predicted in", seconds_text(outcome.model.seconds))]
    return []


def resources(outcome: Outcome) -> Row:
    """Return what the design is expected to take."""
    assert outcome.design is not None
    text = resource_text(outcome.design.resources, outcome.design.target)
    return Row("resources", text)


def written(outcome: Outcome) -> Facts:
    """Return what was written, if anything was."""
    if not outcome.files:
        return Facts(())
    files = [Row(f"  {name}", f"{size:,} bytes") for name, size in outcome.files.items()]
    return Facts((Row("written", outcome.folder or ""), *files))
