"""`penstock reproduce dana`: the tables and figures of DAnA (PVLDB 11(11), 2018) beside ours."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from penstock.api import assume, compile
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.host.sources import Table
from penstock.models.derating import fullest
from penstock.models.feed import Decoded, Seconds, run_seconds
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.models.link.kinds import parse_link
from penstock.models.target import Target
from penstock.models.verdict import WORTH, verdict
from penstock.report.papers import (
    Cell,
    beside,
    chart,
    figures,
    geomean,
    number,
    plain,
    records,
)
from penstock.report.parts import Facts, Part
from penstock.runs.accounts import decoded
from penstock.runs.run import Run
from penstock.targets import link_of, target_named

from .design import AnalyticsDesign
from .equal_loss import PAGES, random_table
from .equal_loss import measured as measured_peers

_Work = Mapping[str, Any]
_Shape = int | tuple[int, int, int]
_TARGET = "vu9p"
#: bytes of a page; tuples of a batch, of rows with 1,000 features and more, and where threads are many
_PAGE, _BATCH = 32_768, 64
_FEW, _MOST = 16, 2048
#: beside CPUs: tuples of a batch, epochs; bytes of rows that the decoder is timed on
_LOSS_BATCH, _PASSES, _SAMPLE = 256, 10, 8 << 20
_DISK = parse_link("gbps=4.312")
_STEPS = {
    "logistic": "(sigmoid(sum(w * x)) - y)",
    "svm": "where(y * sum(w * x) < 1, -y, 0)",
    "linear": "(sum(w * x) - y)",
}
#: low-rank matrix factorisation of one tuple a rating; the rank of all of the paper's
_FACTORS = """kernel lrmf(u: index[m], i: index[n], r: output, P: model[m, k], Q: model[n, k], rate: meta = 0.05)
  error = sum(P[u] * Q[i]) - r
  P[u] += -rate * error * Q[i]
  Q[i] += -rate * error * P[u]
  init P = uniform(-0.5, 0.5, seed=1)
  init Q = uniform(-0.5, 0.5, seed=2)
  batch {}
"""


def workloads(only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the paper's workloads, those of these names where any are given."""
    return [w for w in records(_data()["workloads"]) if not only or w["name"] in only]


def _data() -> Mapping[str, Any]:
    return figures(__package__, "dana")


def text(kernel: str, batch: int) -> str:
    """Return a kernel of the paper's as text, with batches of so many tuples."""
    if kernel not in _STEPS:
        return _FACTORS.format(batch)
    head = f"kernel {kernel}(x: input[d], y: output, w: model[d], rate: meta = 0.1)\n"
    return f"{head}  step = mean({_STEPS[kernel]} * x, {batch})\n  w <- w - rate * step\n"


def schema(kernel: str, features: int) -> Schema:
    """Return the schema of the authors' scripts: a serial number, a label, an array stored as it is; of ratings one a row."""
    if kernel not in _STEPS:
        kinds = (("u", "int4", None), ("i", "int4", None), ("r", "float4", None))
        return _schema(kinds)
    label = "float4" if kernel == "linear" else "int4"
    return _schema((("id", "int4", None), ("y", label, None), ("x", "float4[]", features)))


def _schema(kinds: Iterable[tuple[str, str, int | None]]) -> Schema:
    columns = (Column(name, kind, not_null=True, length=length) for name, kind, length in kinds)
    return Schema("t", tuple(columns), page_size=_PAGE)


@dataclass(frozen=True)
class Epoch:
    """One pass of a plan over a workload's table, or several, by the cycle model; `numbers` of a row, of what is learned."""

    design: AnalyticsDesign
    run: Run
    pages: int
    rows: int
    numbers: int
    weights: int

    def seconds(self, *, disk: bool = False, rows_per_s: float | None = None) -> Seconds:
        """Return where the time goes from end to end; `rows_per_s`: at which the host takes tuples
        out of pages, where no Strider does."""
        values = self.rows * 4 * self.numbers
        return run_seconds(
            self.run.cycles or 0,
            self.design.target.clock_mhz,
            self.pages * self.design.plan.page_size,
            4 * self.weights,
            link=link_of(self.design.target),
            disk=_DISK if disk else None,
            decoded=None if rows_per_s is None else Decoded(self.rows, int(rows_per_s), values),
        )

    @property
    def part(self) -> str:
        """How full the part is, and the clock where that makes it slower."""
        name, share = fullest(self.design.resources, self.design.target)
        mhz = self.design.target.clock_mhz
        slower = f", {mhz:g} MHz" if mhz < target_named(self.design.target.name).clock_mhz else ""
        return f"{share:.0%} {name.upper()}{slower}"

    @property
    def engine(self) -> float:
        return float(self.seconds().engine)

    @property
    def total(self) -> float:
        return float(self.seconds().total)


def _trained(
    kernel: str,
    batch: int,
    features: _Shape,
    rows: int,
    part: Target | str,
    epochs: int,
    **options: Any,
) -> Epoch:
    """Return a training by the cycle model. Raises KernelError."""
    loaded = from_text(text(kernel, batch), f"{kernel}.psk")
    if isinstance(features, int):
        numbers, weights = features + 1, features
    else:
        options["dims"], numbers = dict(zip("mnk", features, strict=True)), 3
        weights = (features[0] + features[1]) * features[2]
    design = compile(loaded, part, schema(kernel, numbers - 1), **options)
    assert isinstance(design, AnalyticsDesign)
    table = assume(design.plan.schema, rows)
    run = design.run(table, "model", epochs=epochs)
    return Epoch(design, run, table.pages, rows, numbers, weights)


@cache
def epoch(
    kernel: str, features: _Shape, rows: int, threads: int | None = None, bandwidth: float = 1.0
) -> Epoch | str:
    """Return an epoch on the paper's part, or why there is none; `features`: of ratings how many users and items and which rank;
    `bandwidth`: times the part's own. A port has no more than its width: beyond, the part has more ports."""
    part, memory = target_named(_TARGET), None
    wide = isinstance(features, int) and features >= 1000
    batch = _MOST if threads else _FEW if wide else _BATCH
    if bandwidth > 1:
        part = replace(part, ports=part.ports * round(bandwidth))
    elif bandwidth < 1:
        memory = f"latency={part.latency},bytes={round(part.bytes_per_cycle * bandwidth)}"
    try:
        # of two threads and Striders a port the cycle model sees soon that a million pages are alike
        two = (2 * part.ports, 2) if wide and not threads else (threads, None)
        choices = Choices(threads=two[0], walkers=two[1])
        return _trained(kernel, batch, features, rows, part, 1, memory=memory, choices=choices)
    except KernelError as problem:
        message = problem.diagnostic.message
        return message.partition(": ")[2] or message


def _of(w: _Work, **options: Any) -> Epoch | str:
    if w["kernel"] in _STEPS:
        return epoch(w["kernel"], w["features"], w["rows"], **options)
    users, items, rank = w["features"]
    return epoch(w["kernel"], (users, items, rank), users * items, **options)


def _made(chosen: Sequence[_Work]) -> dict[str, tuple[_Work, Epoch]]:
    """Return the workloads that have an epoch, by name."""
    epochs = ((w, _of(w)) for w in chosen)
    return {w["name"]: (w, epoch) for w, epoch in epochs if isinstance(epoch, Epoch)}


def _cells(
    chosen: Sequence[_Work],
    printed: str | Callable[[_Work], float],
    ours: Callable[[_Work, Epoch], tuple[float, str]],
) -> list[Cell]:
    """Return a cell for each workload, with the reason where there is none of ours; `printed`: its
    column, or what gives it."""
    cells = []
    for w in chosen:
        epoch, known = _of(w), w[printed] if isinstance(printed, str) else printed(w)
        of = (None, epoch) if isinstance(epoch, str) else ours(w, epoch)
        cells.append(Cell(w["name"], known, *of))
    return cells


def _table3(chosen: Sequence[_Work]) -> Part:
    pages = {w["name"]: w["pages"] for w in workloads()}
    other = {"Patient": "Blog", "Blog": "Patient"}

    def ours(w: _Work, epoch: Epoch) -> tuple[float, str]:
        if swapped := other.get(w["name"]):
            return epoch.pages, f"printed in {swapped}'s row: {pages[swapped]:,}"
        if w["kernel"] not in _STEPS:
            return epoch.pages, "one tuple a rating, of each place of the paper's dense rows"
        close = abs(epoch.pages / w["pages"] - 1) < 1e-3
        return epoch.pages, "" if close else "no whole number of rows a page gives it"

    return beside("Table 3: pages of 32 KB", "table", _cells(chosen, "pages", ours))


def _plans(chosen: Sequence[_Work]) -> Part:
    rows = []
    for name, (_, epoch) in _made(chosen).items():
        plan, bound, part = epoch.design.plan, epoch.run.bound, epoch.part
        assert bound is not None and epoch.run.cycles is not None
        cells = (f"{plan.threads} × {plan.lanes}", part, f"{epoch.run.cycles:,}")
        rows.append([name, *cells, bound.by, f"{epoch.run.cycles / bound.cycles:.3f}"])
    heads = ["workload", "threads × lanes", "part", "cycles", "binds", "÷ bound"]
    return plain("Our plans on the paper's part", heads, rows)


def _table5(chosen: Sequence[_Work]) -> Iterator[Part]:
    def seconds(w: _Work, epoch: Epoch) -> tuple[float, str]:
        count = (w["dana"] - epoch.total + epoch.engine) / epoch.engine
        note = f"; the printed time holds {count:,.0f} of our epochs" if count >= 1 else ""
        return epoch.total, f"{epoch.seconds().binds} binds{note}"

    notes, columns = _data()["notes"], {}
    cells = _cells(chosen, "dana", seconds)
    yield beside("Table 5: seconds of DAnA", "workload", cells, notes["table 5"])
    for column in ("warm", "cold"):

        def gain(w: _Work, epoch: Epoch, cold: bool = column == "cold") -> tuple[float, str]:
            took = epoch.seconds(disk=cold)
            return w["madlib"] / float(took.total), f"{took.binds} binds"

        columns[column] = _cells(chosen, column, gain)
        title = f"Figures 8 to 10, {column}: × over MADlib on PostgreSQL"
        yield beside(title, "workload", columns[column], notes["figures 8 to 10"])
    yield chart("Figures 8 to 10, × over MADlib", columns, "× over MADlib", log=True)
    yield _means(chosen, columns)


def _means(chosen: Sequence[_Work], columns: Mapping[str, Sequence[Cell]]) -> Part:
    cells = []
    for mean in records(_data()["means"]):
        group, column = mean["group"], mean["column"]
        members = [w for w in chosen if group in ("all", w["group"])]
        if not members or (group == "all" and column != "warm"):
            continue
        names = {w["name"] for w in members}
        cells_of = [c for c in columns.get(column, ()) if c.name in names]
        ours = [c.ours for c in cells_of if c.ours is not None]
        without = [c.name for c in cells_of if c.ours is None]
        cause = f"of the paper's cells: {geomean(w[column] for w in members):.2f}"
        cause += f"; ours without {', '.join(without)}" if without else ""
        cause += "" if ours else "; no Greenplum was run"
        mine = geomean(ours) if ours else None
        cells.append(Cell(f"{group}, {column}", mean["printed"], mine, cause))
    return beside("Geometric means of figures 8 to 10", "tables", cells)


def _greenplum(chosen: Sequence[_Work]) -> Iterator[Part]:
    def ours(w: _Work, epoch: Epoch) -> tuple[float, str]:
        return w["greenplum"] / epoch.total, "one epoch of ours"

    cells = _cells(chosen, lambda w: float(w["greenplum"] / w["dana"]), ours)
    gains = "; ".join(f"{group} {a} and {b}" for group, (a, b) in _data()["greenplum"].items())
    note = f"Printed: table 5's columns. The text has, warm and cold: {gains}."
    yield beside("Greenplum's line: × over 8 segments", "workload", cells, note)
    rows = [[name, *map(number, values)] for name, *values in _data()["segments"]["rows"]]
    note = "Printed; no Greenplum was run for ours."
    yield plain("Figure 13: × over 8 segments", _data()["segments"]["head"], rows, note)


def _threads(chosen: Sequence[_Work]) -> Iterator[Part]:
    drawn: dict[str, list[Cell]] = {}
    for name, (w, _) in _made(chosen).items():
        for line in (r for r in records(_data()["threads"]) if r["name"] == name):
            first = _of(w, threads=1)
            drawn[name] = cells = []
            for count, printed in list(line.items())[1:]:
                epoch, ours = _of(w, threads=int(count)), None
                cause = epoch if isinstance(epoch, str) else ""
                if isinstance(epoch, Epoch) and isinstance(first, Epoch) and epoch.run.bound:
                    ours = first.engine / epoch.engine
                    lanes = f"{epoch.design.plan.lanes} lanes each"
                    cause = f"{lanes}, {epoch.part}; {epoch.run.bound.by} binds"
                cells.append(Cell(count, printed if printed > 0 else None, ours, cause))
            title = f"Figure 12: × over one thread, {name}"
            yield beside(title, "threads", cells, _data()["notes"]["figure 12"])
    if drawn:
        yield chart("Figure 12, threads", drawn, "× over one thread", log=False)


def _bandwidth(chosen: Sequence[_Work]) -> Iterator[Part]:
    def gain(factor: float) -> Callable[[_Work, Epoch], tuple[float, str]]:
        def ours(w: _Work, epoch: Epoch) -> tuple[float, str]:
            other = _of(w, bandwidth=factor)
            assert isinstance(other, Epoch)
            return epoch.engine / other.engine, ""

        return ours

    of = {0.25: "slow", 0.5: "slow", 2.0: "fast", 4.0: "fast"}
    columns = {factor: _cells(chosen, column, gain(factor)) for factor, column in of.items()}
    rows = []
    for slow, half, double, fast in zip(*columns.values(), strict=True):
        values = (slow.printed, slow.ours, slow.ratio, half.ours, double.ours)
        rows.append([slow.name, *map(number, (*values, fast.printed, fast.ours, fast.ratio))])
    heads = "workload|¼: paper|ours|ratio|½: ours|2: ours|4: paper|ours|ratio".split("|")
    title = "Figure 14: time at the baseline ÷ time at another bandwidth"
    yield plain(title, heads, rows, _data()["notes"]["figure 14"])
    names = {"a quarter of it": columns[0.25], "four times": columns[4.0]}
    yield chart("Figure 14, bandwidth", names, "baseline ÷ time", log=False)


def _libraries(chosen: Sequence[_Work]) -> Iterator[Part]:
    epochs, heads = _made(chosen), _data()["libraries"]["head"]
    for n, what in enumerate(("compute alone", "from end to end")):
        rows = []
        for name, *theirs in _data()["libraries"]["rows"]:
            if name in epochs:
                w, ours = epochs[name]
                gain = w["madlib"] / (ours.total if n else ours.engine)
                printed = [pair[n] if pair[n] > 0 else None for pair in theirs]
                rows.append([name, *map(number, (*printed, gain, gain / theirs[-1][n]))])
        title = f"Figure 15, {what}: × over MADlib on PostgreSQL"
        note = _data()["notes"]["figure 15"] if n else ""
        yield plain(title, [*heads, "ours", "÷ DAnA"], rows, note)


def _software(chosen: Sequence[_Work]) -> Part:
    epochs, table = _made(chosen), _data()["software"]
    rows = [
        [name, *map(number, (*theirs, epochs[name][1].engine * 1e3, epochs[name][1].total * 1e3))]
        for name, *theirs in table["rows"]
        if name in epochs
    ]
    heads = [*table["head"], "ours, engine", "ours, warm"]
    return plain("Software of today: ms an epoch", heads, rows, _data()["notes"]["software"])


def tables(only: Sequence[str] = ()) -> Iterator[Part]:
    """Return what needs no clock of this machine, for workloads of these names or for all."""
    chosen = workloads(only)
    yield Facts.of(*_data()["facts"].items(), title="DAnA: learning from a database's pages")
    yield _table3(chosen)
    yield _plans(chosen)
    for section in (_table5, _greenplum, _threads, _bandwidth, _libraries):
        yield from section(chosen)
    yield _software(chosen)
    yield Facts.of(*_data()["marked"].items(), title="What does not agree in the paper")


def _striders(chosen: Sequence[_Work]) -> Iterator[Part]:
    """Return the gain of Striders: without, this machine's decoder takes tuples out of pages."""

    def ours(w: _Work, epoch: Epoch) -> tuple[float, str]:
        few, form = min(epoch.rows, _SAMPLE // (4 * (epoch.numbers - 1))), epoch.design.plan.schema
        if w["kernel"] in _STEPS:
            table = random_table(form, w["features"], few, w["kernel"])
        else:
            table = Table(form, write_heap(form, dict.fromkeys("uir", np.zeros(few))))
        rate = float(decoded(table, 0).rows_per_s)
        without = epoch.seconds(rows_per_s=rate)
        cause = f"{number(rate / 1e6)} M rows/s decoded here; without, {without.binds} binds"
        return float(without.total) / epoch.total, cause

    cells = _cells(chosen, lambda w: float(w["warm"] / w["plain"]), ours)
    note = _data()["notes"]["figure 11"]
    yield beside("Figure 11: what Striders gain", "workload", cells, note)
    yield chart("Figure 11, Striders", {"gain": cells}, "without ÷ with", log=True)


def _equal_loss(chosen: Sequence[_Work]) -> Iterator[Part]:
    """Return CPUs' time for `_PASSES` epochs beside ours on the paper's part and on a card of today, of generalised linear models."""
    members = [w for w in chosen if w["group"] == "public" and w["kernel"] in _STEPS]
    for name, (w, _) in _made(members).items():
        kernel, features = w["kernel"], w["features"]
        table = random_table(schema(kernel, features), features, w["rows"], kernel)
        graph = from_text(text(kernel, _LOSS_BATCH)).trace({"d": features})
        peers = list(measured_peers(graph, kernel, table, features, _LOSS_BATCH, _PASSES))
        rows = []
        for m in peers:
            scaled = ", scaled by rows" * (m.rows_run < m.rows)
            label = f"{m.name}, {m.threads} thread{'s' * (m.threads > 1)}"
            rows.append([label, f"{m.seconds * 1e3:.2f}{scaled}", "yes" if m.reached else "no"])
        lines, rivals = [], [m.beside() for m in peers if m.name.endswith(PAGES)]
        for target, worth in ((_TARGET, WORTH), ("u55c", 10.0)):
            took = _trained(kernel, _LOSS_BATCH, features, w["rows"], target, _PASSES).seconds()
            rows.append([f"ours, {target}", f"{float(took.total) * 1e3:.2f}", "yes"])
            streams = ", ".join(f"{k} {float(v) * 1e3:.3g} ms" for k, v in took.streams.items())
            judged = verdict(took, rivals, worth).text
            lines.append(f"{target}: {streams}; {worth:g} × asked: {judged}.")
        title = f"{name}, {_PASSES} epochs, warm: ms beside CPUs, to our loss"
        yield plain(title, ["what", "ms", "loss reached"], rows, " ".join(lines))


def measured(only: Sequence[str] = (), cpu: bool = False) -> Iterator[Part]:
    """Return what is measured on this machine; `cpu`: other programs for the same work as well."""
    yield from _striders(workloads(only))
    if cpu:
        yield from _equal_loss(workloads(only))


def parts(cpu: bool = False) -> Iterator[Part]:
    """Return the report; `cpu`: with what this computer takes for the same work."""
    yield from tables()
    yield from measured(cpu=cpu)
