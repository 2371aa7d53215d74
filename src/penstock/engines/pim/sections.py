"""Reports on recurrences."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.dsl.pim.recurrent import Recurrent
from penstock.models.pim.energy import picojoules
from penstock.models.pim.layout import Layout
from penstock.models.pim.rounds import HARDWARE, PUBLISHED
from penstock.models.pim.rules import check
from penstock.models.pim.schedule import period_of
from penstock.report.common import agreement, cycle_rows, resources, speed_rows, written
from penstock.report.parts import Facts, Part, Row, Verdict
from penstock.report.words import plural, target_text, values_text
from penstock.runs.outcome import Outcome

from .data import Inputs
from .design import PimDesign
from .workload import Stepping

#: heads that a row names
MOST = 4
_MODES = {
    "update": "state update: S = d ⊙ S + k vᵀ, y = Sᵀ q",
    "turned": "state update: Sᵀ = d ⊙ Sᵀ + k vᵀ, y = S q",
    "score": "a cache's rows times q",
    "attend": "weights times a cache's rows",
    "attention": "softmax(scale · K q) V",
}


def facts(recurrent: Recurrent) -> Facts:
    kind = "state" if recurrent.values is None else "cache"
    more = ", which takes a row each token" if recurrent.grows else ""
    return Facts.of(
        ("recurrence", recurrent.name),
        ("form", _MODES["turned" if recurrent.turned else recurrent.mode]),
        *_beside(recurrent),
        *(
            (kind, f"{part.state}[{part.sizes[0] or '?'}, {part.sizes[1] or '?'}]{more}")
            for part in recurrent.parts
        ),
    )


def _beside(recurrent: Recurrent) -> Iterable[tuple[str, str]]:
    """Return what a token takes where that is more than one update."""
    kinds = [
        ("read" if one.k is None else "update and read" if one.q is not None else "update")
        for one in recurrent.passes
    ]
    if len(kinds) > 1 and recurrent.mode == "update":
        waits = "; the host makes operands of what is read" if recurrent.depends else ""
        yield "passes", f"{', '.join(kinds)}{waits}"
    if recurrent.held:
        yield "states of the host", ", ".join(name for name, _ in recurrent.held)


def read(inputs: Inputs, count: int) -> Facts:
    """Return what data hold; `count`: numbers of them beyond the format."""
    heads = f"{plural(inputs.heads, 'head')} of {plural(inputs.batch, 'request')}"
    return Facts((Row("heads", heads), Row("tokens", f"{inputs.tokens:,}"), *clipped(count)))


def clipped(count: int) -> Iterable[Row]:
    """Return what was done with numbers of the data beyond the format, if there are any."""
    if count:
        yield Row("inputs", f"{plural(count, 'number')} beyond the format, taken as its end")


def summary(outcome: Outcome) -> Iterable[Part]:
    """Return the report on a compiled, predicted or simulated recurrence."""
    design = outcome.design
    assert isinstance(design, PimDesign)
    yield facts(design.recurrent)
    device = design.device
    shared = f", {plural(design.group, 'head')} for each cache" if design.group > 1 else ""
    yield Facts.of(
        ("target", target_text(design.target)),
        ("format", f"{device.format}, {'stochastic' if device.stochastic else 'nearest'} rounding"),
        ("device", f"{design.text()}, {plural(device.rows, 'row')} of 1 KB each"),
        ("heads", f"{plural(design.heads, 'head')} of {plural(design.batch, 'request')}" + shared),
    )
    if outcome.rows is not None:
        yield Facts(tuple(_run(outcome, design)))
    results = (
        Row(name, values_text(value.ravel().tolist()))
        for name, value in (outcome.result or {}).items()
    )
    yield Facts((resources(outcome), *results))
    yield written(outcome)


def _run(outcome: Outcome, design: PimDesign) -> Iterable[Row]:
    """Yield a report's rows about a run."""
    workload = outcome.workload
    yield Row("tokens", f"{outcome.rows}" + (", assumed" if outcome.assumed else ""))
    yield from agreement(outcome)
    yield from cycle_rows(outcome, clock=True)
    if isinstance(workload, Stepping):
        wrong = [text for prog in workload.programs for text in check(prog.schedule)]
        count = plural(sum(len(prog.schedule.commands) for prog in workload.programs), "command")
        yield Row("DRAM's rules", Verdict(not wrong, wrong[0] if wrong else f"kept by {count}"))
        if not design.device.chip:  # there rounds are as long as what they send
            texts = dict.fromkeys(_round(layout, workload.rates) for layout in workload.layouts)
            yield Row("a round", "; ".join(texts))
        if design.device.timing.name.startswith("pimba"):
            spent = sum(map(picojoules, workload.programs)) / workload.tokens
            energy = f"{spent / 1e6:,.3g} µJ a token, without refresh and idle power"
            yield Row("memory chip", energy)
    run = outcome.rtl or outcome.golden
    if run is not None and not run.errors:
        saturated = run.counters.get("saturated", 0)
        yield from _errors(outcome.details, saturated > 0)
        if language := outcome.details.get("golden"):
            yield Row("golden", language)
        yield Row("saturated", f"{saturated:,}")
        yield from clipped(run.counters.get("saturated_inputs", 0))
        if sums := run.counters.get("saturated_sums", 0):
            yield Row("sums", f"{plural(sums, 'sum')} beyond float32, taken as its end")
    yield from speed_rows(outcome)


def _errors(details: Mapping[str, Any], saturated: bool) -> Iterable[Row]:
    """Return how far the units' output is from float64, and which heads collapse. The bound holds where nothing
    `saturated`."""
    if "float64" not in details:
        return
    gap = details["float64"]
    heads = "all heads" if gap["heads"] == gap["of"] else f"{gap['heads']:,} of {gap['of']:,} heads"
    where = "token {}, request {}, head {}, element {}".format(*gap["largest_at"])
    yield Row(
        "RMS error", f"{gap['rms']:.3g}, {gap['rms_of_output']:.3%} of the output's ({heads})"
    )
    text = f"{gap['largest']:.3g} at {where}; bound {gap['largest_bound']:.3g}"
    if gap["largest_bound"] * gap["rms_of_output"] > 10 * gap["rms"] > 0:
        text += ", over ten times the output's own size"
    yield Row("largest error", text)
    within = "every output" if gap["within_bound"] else f"bounds up to {gap['bound']:.3g}"
    judged = Verdict(gap["within_bound"], within)
    yield Row("within the bound", "not judged: units saturate" if saturated else judged)
    lost = details["collapsed"]
    if lost:
        names = [f"request {n['request']} head {n['head']} ({n['rate']:.3g})" for n in lost[:MOST]]
        more = f" and {len(lost) - MOST:,} more" if len(lost) > MOST else ""
        yield Row(
            "collapsed", f"{', '.join(names)}{more}: rates 1 − d that the format does not hold"
        )


def _round(layout: Layout, rates: int) -> str:
    """Return the cycles of a round in steady state."""
    texts = []
    number = next((n for n, (m, _) in enumerate(layout.passes) if m == "update"), 0)
    for row in (0, 1) if layout.chunks > 1 else (0,):
        round_ = layout.round_of(number, row, rates)
        hardware, published = (period_of(layout.config, round_, c) for c in (HARDWARE, PUBLISHED))
        texts.append(f"{hardware} cycles ({published} without the slots that drain)")
    if len(set(texts)) == 1:
        return texts[0]
    return f"first chunk {texts[0]}, later ones {texts[1]}"
