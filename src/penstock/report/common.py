"""Parts of reports that are alike for every engine."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from penstock.models.target import Capacity
from penstock.runs.outcome import Outcome, differences, not_compared

from .parts import Chart, Facts, Part, Row, Verdict
from .words import amount, plural, rate, resource_text, seconds_text


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
    if outcome.model is None:
        return rows
    bounds = {"bound": outcome.model.bound, "machine's": outcome.model.bound_machine}
    for name, limits in bounds.items():
        if limits is not None and limits.cycles:
            ratio = f"cycles ÷ bound = {cycles / limits.cycles:.3f}"
            rows.append(Row(name, f"{limits.cycles:,} by {limits.by}; {ratio}"))
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


def ring_rows(slots: int) -> list[Row]:
    """Return what a report says of a ring with so many slots a port (`models.ring`)."""
    held = f"{plural(slots, 'page slot')} a port; when pages come is an estimate"
    return [Row("ring", f"{held}, for which cycles are exact")] if slots else []


def read_rows(outcome: Outcome) -> list[Row]:
    """Return how a server's table was read, and which columns became numbers."""
    how = None if outcome.workload is None else outcome.workload.provenance
    if how is None:
        return []
    shares = f"; {how.untouched_share:.0%} of its pages untouched" if how.pages_untouched else ""
    rows = [Row("read", f"{how.way}: {how.reason}{shares}")]
    for cast in how.casts:
        rows.append(Row(f"  {cast.column}", f"{cast.type} as {cast.becomes}: {cast.how}"))
    if how.left_out:
        names = ", ".join(f"{column} ({why})" for column, why in how.left_out)
        rows.append(Row("  left out", names))
    return rows


def input_rows(outcome: Outcome) -> list[Row]:
    """Return what happened to numbers that the format does not hold, as the golden run counted it:
    its counters `nan_rows`, `saturated_inputs`, `not_finite_inputs` and `lost_columns`, of one pass over the data, and
    `left_range`, of the whole run."""
    counts = {} if outcome.golden is None else outcome.golden.counters
    rows = []
    if left := counts.get("nan_rows"):
        rows.append(Row("NaN", f"{plural(left, 'row')} left out"))
    if saturated := counts.get("saturated_inputs"):
        what = f"{plural(saturated, 'value')} of the table beyond the format, taken as its end"
        rows.append(Row("saturated", what))
    if passed := counts.get("not_finite_inputs"):
        rows.append(Row("not finite", f"{plural(passed, 'value')} of the table, passed"))
    if gone := [key.partition(".")[2] for key in counts if key.startswith("lost_columns.")]:
        what = "values differ in the table, but are all equal in the format: scale, or --format"
        rows.append(Row("warning", f"{', '.join(gone)}: {what}"))
    if beyond := counts.get("left_range"):
        rows.append(Row("left range", f"{plural(beyond, 'result')} of the arithmetic"))
    return rows


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


# charts


def bound_terms(outcome: Outcome) -> dict[str, int]:
    """Return the terms of the model's bound in cycles, by name: the numbers of a dataclass, or the
    one term that every bound has."""
    limits = outcome.model.bound if outcome.model is not None else None
    if limits is None:
        return {}
    fields: dict[str, Any] = {}
    if is_dataclass(limits) and not isinstance(limits, type):
        fields = asdict(limits)
    terms = {
        name: value
        for name, value in fields.items()
        if isinstance(value, int) and value > 0 and name != "cycles"
    }
    return terms or ({limits.by: limits.cycles} if limits.cycles else {})


def shares_chart(outcome: Outcome, parts: Mapping[str, int]) -> Iterable[Chart]:
    """Return how long each part takes by itself, where the cycles of the run are known."""
    if outcome.cycles and parts:
        yield Chart(
            "shares",
            "Cycles by what they wait for",
            {"total": outcome.cycles, "parts": dict(parts)},
            "Each part alone, of all cycles. Parts work at the same time: the longest one limits "
            "the run.",
        )


def roofline_chart(
    outcome: Outcome, operation: str, operations: float, moved: float, peak: float, note: str
) -> Iterable[Chart]:
    """Return the roofline of a run, where its cycles and its bound are known.

    Parameters: `operation`: what is counted, in the plural; `operations`, `moved`: of the run, and
    its bytes; `peak`: operations a cycle with all units busy; `note`: what an operation is.
    """
    terms = bound_terms(outcome)
    memory = terms.pop("memory", 0)
    if outcome.design is None or not outcome.cycles or not memory or not moved or not operations:
        return
    data = {
        "name": outcome.design.name,
        "operation": operation,
        "point": (operations / moved, operations / outcome.cycles),
        "peak": peak,
        "bandwidth": moved / memory,
        "ceilings": {name: operations / cycles for name, cycles in terms.items() if cycles > 0},
    }
    yield Chart("roofline", "Roofline", data, note)


def shared_charts(outcome: Outcome, parts: Iterable[Part]) -> Iterable[Chart]:
    """Return the charts that every engine has, but for kinds that are among `parts`."""
    kinds = {part.kind for part in parts if isinstance(part, Chart)}
    charts = (*shares_chart(outcome, bound_terms(outcome)), *_resources(outcome), *_path(outcome))
    yield from (chart for chart in charts if chart.kind not in kinds)


def _capacity(part: Capacity) -> dict[str, int]:
    names = ("lut", "ff", "dsp", "bram", *["uram"] * (part.uram > 0))
    return {name: getattr(part, name) for name in names}


def _resources(outcome: Outcome) -> Iterable[Chart]:
    design = outcome.design
    if design is None or design.refused is not None:
        return
    placed, have, need = None, _capacity(design.target), design.resources
    if outcome.placed is not None:
        placed = outcome.placed["resources"]
        have = _capacity(design.target.device)
    rows = [
        {
            "name": name.upper(),
            "capacity": most,
            "estimated": getattr(need, name),
            "placed": None if placed is None else placed[name],
        }
        for name, most in have.items()
    ]
    yield Chart("resources", "Resources", {"part": design.target.name, "rows": rows})


#: the parts of a critical path as `boards.timing` writes them
_DELAY = re.compile(r"([\d.]+) ns (out of [a-z ]+|logic|routing)")
_PATH = re.compile(r"(.*?) to (.*?), \d+ cells?, ([\d.]+) ns \(")


def _path(outcome: Outcome) -> Iterable[Chart]:
    placed = outcome.placed
    if placed is None or not placed.get("critical_path"):
        return
    text, clock, reached = placed["critical_path"], placed["clock_mhz"], placed["fmax_mhz"]
    ends = _PATH.match(text)
    parts = {name: float(time) for time, name in _DELAY.findall(text)}
    if ends is not None and (rest := round(float(ends[3]) - sum(parts.values()), 1)) > 0:
        parts["setup"] = rest
    data = {
        "first": ends[1] if ends is not None else text,
        "last": ends[2] if ends is not None else "",
        "parts": parts,
        "period": 1e3 / clock if clock else 0.0,
        "reached": 1e3 / reached if reached else None,
    }
    advice = placed.get("next_step")
    note = f"Next step for a faster clock: {advice}." if advice else ""
    yield Chart("path", "Critical path", data, note)
