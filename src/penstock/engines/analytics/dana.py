"""`penstock reproduce dana`: the tables and figures of DAnA (PVLDB 11(11), 2018) beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from penstock.accounts import decoded
from penstock.api import assume, compile
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.models.feed import Decoded, Seconds, run_seconds
from penstock.models.heap.schema import Column, Schema
from penstock.models.link.kinds import parse_link
from penstock.models.verdict import WORTH, verdict
from penstock.report.papers import Cell, beside, chart, figures, geomean, number, plain, records
from penstock.report.rows import Facts, Part
from penstock.run import Run
from penstock.targets import target_named

from .design import AnalyticsDesign
from .equal_loss import measured as measured_peers
from .equal_loss import random_table

__all__ = ["Epoch", "epoch", "measured", "parts", "tables", "workloads"]

_TARGET = "vu9p"
#: bytes of a page; tuples of a batch, of rows with 1,000 features and more, and where threads are many: the only merge
#: coefficient that the paper names
_PAGE, _BATCH, _FEW, _MOST = 32_768, 64, 16, 2048
#: beside CPUs: tuples of a batch, epochs; bytes of rows that the decoder is timed on
_LOSS_BATCH, _PASSES, _SAMPLE = 256, 10, 8 << 20
#: the paper names no link, and a disk of 256 GB without its rate: table 5 has S/E SVM read at 539 MB/s
_LINK, _DISK = parse_link("xdma"), parse_link("gbps=4.312")
_KERNELS = {
    "logistic": "  step = mean((sigmoid(sum(w * x)) - y) * x, {n})\n  w <- w - rate * step\n",
    "svm": "  step = mean(where(y * sum(w * x) < 1, -y, 0) * x, {n})\n  w <- w - rate * step\n",
    "linear": "  step = mean((sum(w * x) - y) * x, {n})\n  w <- w - rate * step\n",
}
_LATER = "not yet: an epoch needs models with indexed rows; as dense rows the ratings fit no page"


def workloads(only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the paper's workloads, those of these names where any are given."""
    found = records(_data()["workloads"])
    return [w for w in found if not only or w["name"] in only]


def _data() -> Mapping[str, Any]:
    return figures(__package__, "dana")


def text(kernel: str, batch: int) -> str:
    """Return a kernel of the paper's as text, with batches of so many tuples."""
    head = f"kernel {kernel}(x: input[d], y: output, w: model[d], rate: meta = 0.1)\n"
    return head + _KERNELS[kernel].format(n=batch)


def schema(kernel: str, features: int, page_size: int = _PAGE) -> Schema:
    """Return the schema of the authors' scripts: a serial number, a label, an array stored as it is."""
    label = "float4" if kernel == "linear" else "int4"
    columns = (
        Column("id", "int4", not_null=True),
        Column("y", label, not_null=True),
        Column("x", "float4[]", not_null=True, length=features),
    )
    return Schema("t", columns, page_size=page_size)


@dataclass(frozen=True)
class Epoch:
    """One pass of a plan over a workload's table, by the cycle model."""

    design: AnalyticsDesign
    run: Run
    pages: int
    rows: int
    features: int

    @property
    def share(self) -> tuple[float, str]:
        """The largest share of the part that is taken, and of what."""
        need, part = self.design.resources, self.design.target
        return max(
            (getattr(need, name) / getattr(part, name), name.upper())
            for name in ("lut", "ff", "dsp", "bram")
        )

    def seconds(self, *, disk: bool = False, rows_per_s: float | None = None) -> Seconds:
        """Return where the time goes from end to end; `rows_per_s`: at which the host takes tuples
        out of pages, where no Strider does."""
        assert self.run.cycles is not None
        decoded = None
        if rows_per_s is not None:
            decoded = Decoded(self.rows, int(rows_per_s), self.rows * 4 * (self.features + 1))
        return run_seconds(
            self.run.cycles,
            self.design.target.clock_mhz,
            self.pages * self.design.plan.page_size,
            4 * self.features,
            link=_LINK,
            disk=_DISK if disk else None,
            decoded=decoded,
        )


@cache
def epoch(
    kernel: str, features: int, rows: int, threads: int | None = None, bandwidth: float = 1.0
) -> Epoch | KernelError:
    """Return an epoch on the paper's part, or why there is no plan; `bandwidth`: times the part's
    own. A port has no more than its width: beyond, the part has more ports."""
    part, memory = target_named(_TARGET), None
    batch = _MOST if threads else _BATCH if features < 1000 else _FEW
    if bandwidth > 1:
        part = replace(part, ports=part.ports * round(bandwidth))
    elif bandwidth < 1:
        memory = f"latency={part.latency},bytes={round(part.bytes_per_cycle * bandwidth)}"
    try:
        design = compile(
            from_text(text(kernel, batch), f"{kernel}.psk"),
            part,
            schema(kernel, features),
            memory=memory,
            choices=Choices(threads=threads),
        )
    except KernelError as problem:
        return problem
    assert isinstance(design, AnalyticsDesign)
    table = assume(design.plan.schema, rows)
    return Epoch(design, design.run(table, "model", epochs=1), table.pages, rows, features)


def _of(w: Mapping[str, Any], **options: Any) -> Epoch | KernelError | None:
    """Return an epoch of a workload; None where kernels cannot say it."""
    if w["kernel"] not in _KERNELS:
        return None
    return epoch(w["kernel"], w["features"], w["rows"], **options)


def _cells(
    chosen: Sequence[Mapping[str, Any]],
    printed: Callable[[Mapping[str, Any]], float],
    ours: Callable[[Mapping[str, Any], Epoch], tuple[float, str]],
) -> list[Cell]:
    """Return a cell for each workload, with the reason where there is none of ours."""
    cells = []
    for w in chosen:
        found = _of(w)
        if isinstance(found, Epoch):
            cells.append(Cell(w["name"], printed(w), *ours(w, found)))
        else:
            cells.append(Cell(w["name"], printed(w), None, _LATER if found is None else str(found)))
    return cells


# what any machine prints alike


def _machine() -> Facts:
    part = target_named(_TARGET)
    return Facts.of(
        ("source", "DAnA, PVLDB 11(11), 2018; figures 8 to 14 are read off drawings, about ± 0.1"),
        ("what ours are", "engine: the exact cycle model ÷ stated clock; link and disk: estimates"),
        (
            "machine",
            f"{part.title}: clock and part are the paper's; its bandwidth, link and float width "
            "are not printed. 9.6 GB/s is what CoSMIC's rule gives (inferred)",
        ),
        ("link", "12 GB/s and 1.26 µs a transfer: as BOLT's artifact has it (assumed)"),
        ("disk", "539 MB/s, cold alone: what table 5 gives for S/E SVM (inferred)"),
        (
            "run",
            f"one epoch, float32, pages of 32 KB; batches of {_BATCH} tuples, {_FEW} from 1,000 "
            f"features on, {_MOST:,} for figure 12",
        ),
        ("no ring yet", "the engine begins when the table is there: link and engine add up"),
        title="DAnA: learning from a database's pages",
    )


def _table3(chosen: Sequence[Mapping[str, Any]]) -> Part:
    swapped = {"Patient": "Blog", "Blog": "Patient"}
    pages = {w["name"]: w["pages"] for w in workloads()}

    def ours(w: Mapping[str, Any], made: Epoch) -> tuple[float, str]:
        if w["name"] in swapped:
            other = pages[swapped[w["name"]]]
            return made.pages, f"printed in {swapped[w['name']]}'s row: {other:,}"
        close = abs(made.pages / w["pages"] - 1) < 1e-3
        return made.pages, "" if close else "no whole number of rows a page gives it"

    cells = _cells(chosen, lambda w: w["pages"], ours)
    return beside("Table 3: pages of 32 KB", "table", cells)


def _plans(chosen: Sequence[Mapping[str, Any]]) -> Part:
    rows = []
    for w in chosen:
        made = _of(w)
        if not isinstance(made, Epoch) or made.run.bound is None:
            continue
        plan, bound, (share, name) = made.design.plan, made.run.bound, made.share
        ratio = f"{(made.run.cycles or 0) / bound.cycles:.3f}"
        size = f"{plan.threads} × {plan.lanes}"
        rows.append(
            [w["name"], size, f"{share:.0%} {name}", f"{made.run.cycles:,}", bound.by, ratio]
        )
    heads = ["workload", "threads × lanes", "part", "cycles", "binds", "÷ bound"]
    return plain("Our plans on the paper's part", heads, rows)


def _table5(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    def cause(w: Mapping[str, Any], made: Epoch) -> str:
        warm = made.seconds()
        left = w["dana"] - float(warm.total - warm.engine)
        count = left / float(warm.engine)
        if count < 1:
            return f"{warm.binds} binds"
        return f"{warm.binds} binds; epochs are not printed: the time holds {count:,.0f} of ours"

    def seconds(w: Mapping[str, Any], made: Epoch) -> tuple[float, str]:
        return float(made.seconds().total), cause(w, made)

    note = "Ours: one epoch, warm. The table says neither how many epochs nor warm or cold."
    yield beside(
        "Table 5: seconds of DAnA", "workload", _cells(chosen, lambda w: w["dana"], seconds), note
    )
    found: dict[str, list[Cell]] = {}
    for column, figure in (("warm", "Figures 8 to 10, warm"), ("cold", "Figures 8 to 10, cold")):

        def gain(w: Mapping[str, Any], made: Epoch, cold: bool = column == "cold") -> Any:
            took = made.seconds(disk=cold)
            return w["madlib"] / float(took.total), f"{took.binds} binds"

        found[column] = _cells(chosen, lambda w, c=column: w[c], gain)
        note = "Ours: table 5's seconds of MADlib ÷ our one epoch; of other epochs, and of IRLS or closed form."
        yield beside(f"{figure}: × over MADlib on PostgreSQL", "workload", found[column], note)
    yield chart("Figures 8 to 10, × over MADlib", found, "× over MADlib on PostgreSQL")
    yield _means(chosen, found)


def _means(chosen: Sequence[Mapping[str, Any]], found: Mapping[str, Sequence[Cell]]) -> Part:
    cells = []
    for mean in records(_data()["means"]):
        group, column = mean["group"], mean["column"]
        if group == "all" and column != "warm":
            continue
        own = [w for w in chosen if group in ("all", w["group"])]
        if not own:
            continue
        names = {w["name"] for w in own}
        ours = [c.ours for c in found.get(column, ()) if c.name in names and c.ours is not None]
        cause = f"of the paper's cells: {geomean(w[column] for w in own):.2f}"
        if len(ours) < len(own):
            cause += "; ours without LRMF" if ours else "; no Greenplum was run"
        cells.append(
            Cell(f"{group}, {column}", mean["printed"], geomean(ours) if ours else None, cause)
        )
    return beside("Geometric means of figures 8 to 10", "tables", cells)


def _greenplum(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    def ours(w: Mapping[str, Any], made: Epoch) -> tuple[float, str]:
        return w["greenplum"] / float(made.seconds().total), "one epoch of ours"

    cells = _cells(chosen, lambda w: w["greenplum"] / w["dana"], ours)
    said = "; ".join(f"{group} {a} and {b}" for group, (a, b) in _data()["greenplum"].items())
    note = f"Printed: table 5's columns. The text has, warm and cold: {said}."
    yield beside("Greenplum's line: × over 8 segments", "workload", cells, note)
    heads = _data()["segments"]["head"]
    rows = [
        [r[heads[0]], *(f"{r[h]:.2f}" for h in heads[1:])] for r in records(_data()["segments"])
    ]
    note = "Printed; no Greenplum was run for ours."
    yield plain("Figure 13: × over 8 segments", heads, rows, note)


def _threads(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    by_name = {w["name"]: w for w in chosen}
    drawn: dict[str, list[Cell]] = {}
    for line in records(_data()["threads"]):
        w = by_name.get(line.pop("name"))
        if w is None or w["kernel"] not in _KERNELS:
            continue
        first = _of(w, threads=1)
        cells = []
        for count in _data()["threads"]["head"][1:]:
            made, printed = _of(w, threads=int(count)), line.get(count, -1)
            ours, cause = None, _LATER
            if isinstance(made, Epoch) and isinstance(first, Epoch) and made.run.bound:
                ours = (first.run.cycles or 0) / (made.run.cycles or 1)
                share, what = made.share
                cause = (
                    f"{made.design.plan.lanes} lanes each, {share:.0%} {what}; {made.run.bound.by}"
                )
            elif isinstance(made, KernelError):
                cause = made.diagnostic.message.partition(": ")[2] or made.diagnostic.message
            cells.append(Cell(count, printed if printed > 0 else None, ours, cause))
        note = "Printed: all threads together have 1,024 units. Netflix: not yet."
        yield beside(f"Figure 12: × over one thread, {w['name']}", "threads", cells, note)
        drawn[w["name"]] = cells
    if drawn:
        yield chart("Figure 12, threads", drawn, "× over one thread")


def _bandwidth(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    rows, drawn = [], {factor: [] for factor in (0.25, 4.0)}  # type: dict[float, list[Cell]]
    for w in chosen:
        base = _of(w)
        cells = [w["name"]]
        for factor, column in ((0.25, "slow"), (0.5, ""), (2.0, ""), (4.0, "fast")):
            made = _of(w, bandwidth=factor)
            ours = None
            if isinstance(base, Epoch) and isinstance(made, Epoch):
                ours = (base.run.cycles or 0) / (made.run.cycles or 1)
            if column:
                cell = Cell(w["name"], w[column], ours)
                drawn[factor].append(cell)
                cells += [number(cell.printed), number(ours), number(cell.ratio)]
            else:
                cells.append(number(ours))
        rows.append(cells)
    heads = [
        "workload",
        "¼: paper",
        "ours",
        "ratio",
        "½: ours",
        "2: ours",
        "4: paper",
        "ours",
        "ratio",
    ]
    note = (
        "The engine's time alone. Ours binds on memory at every shape but the narrow ones: the paper's "
        "engine took longer for the same bytes. 2 × and 4 × are ports beside each other: one carries no more than its width."
    )
    yield plain("Figure 14: time at the baseline ÷ time at another bandwidth", heads, rows, note)
    names = {"a quarter": drawn[0.25], "four times": drawn[4.0]}
    yield chart("Figure 14, bandwidth", names, "time at the baseline ÷ time")


def _libraries(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    by_name = {w["name"]: w for w in chosen}
    heads = _data()["libraries"]["head"]
    for n, what in enumerate(("compute alone", "from end to end")):
        rows = []
        for line in records(_data()["libraries"]):
            w = by_name.get(line["name"])
            made = None if w is None else _of(w)
            if w is None or not isinstance(made, Epoch):
                continue
            took = made.seconds()
            ours = w["madlib"] / float(took.total if n else took.engine)
            theirs = [None if line[h][n] < 0 else line[h][n] for h in heads[1:]]
            rows.append([w["name"], *map(number, theirs), number(ours), number(ours / theirs[-1])])
        note = "One epoch. DAnA's numbers from end to end are those of figures 8 and 9: were these of one epoch too?"
        title = f"Figure 15, {what}: × over MADlib on PostgreSQL"
        yield plain(title, ["workload", *heads[1:], "ours", "÷ DAnA"], rows, note if n else "")


def _software(chosen: Sequence[Mapping[str, Any]]) -> Part:
    table, by_name = _data()["software"], {w["name"]: w for w in chosen}
    heads = [*table["head"][1:], "ours, engine", "ours, warm"]
    rows = []
    for line in records(table):
        made = _of(by_name.get(line["name"], {"kernel": ""}))
        if isinstance(made, Epoch):
            took = made.seconds()
            ours = (float(took.engine) * 1e3, float(took.total) * 1e3)
            rows.append([line["name"], *map(number, (*list(line.values())[1:], *ours))])
    note = "Software: measured in November 2026, in memory; scikit-learn without the export, which takes 5 to 14 times as long."
    return plain("Software of today: ms, on the paper's tables", ["workload", *heads], rows, note)


def _marked() -> Facts:
    return Facts.of(*_data()["marked"].items(), title="What does not agree in the paper")


def tables(only: Sequence[str] = ()) -> Iterator[Part]:
    """Return what needs no clock of this machine, for workloads of these names or for all."""
    chosen = workloads(only)
    yield _machine()
    yield _table3(chosen)
    yield _plans(chosen)
    yield from _table5(chosen)
    yield from _greenplum(chosen)
    yield from _threads(chosen)
    yield from _bandwidth(chosen)
    yield from _libraries(chosen)
    yield _software(chosen)
    yield _marked()


def _striders(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Return the gain of Striders: without, this machine's decoder takes tuples out of pages."""

    def ours(w: Mapping[str, Any], made: Epoch) -> tuple[float, str]:
        few = min(w["rows"], _SAMPLE // (4 * w["features"]))
        table = random_table(made.design.plan.schema, w["features"], few, w["kernel"])
        rate = float(decoded(table, 0).rows_per_s)
        without = made.seconds(rows_per_s=rate)
        ratio = float(without.total / made.seconds().total)
        return ratio, f"{number(rate / 1e6)} M rows/s decoded here; without, {without.binds} binds"

    cells = _cells(chosen, lambda w: w["warm"] / w["plain"], ours)
    note = "Warm, without Striders ÷ with. Printed: simulated, tuples sent one at a time; 4.6 on average."
    yield beside("Figure 11: what Striders gain", "workload", cells, note)
    yield chart("Figure 11, Striders", {"gain": cells}, "time without ÷ time with")


def _equal_loss(chosen: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Return CPUs' time for `_PASSES` epochs beside ours on the paper's part and on a card of today."""
    for w in chosen:
        if w["kernel"] not in _KERNELS or w["group"] != "public":
            continue
        loaded = from_text(text(w["kernel"], _LOSS_BATCH), f"{w['kernel']}.psk")
        layout = schema(w["kernel"], w["features"])
        table = random_table(layout, w["features"], w["rows"], w["kernel"])
        graph = loaded.trace({"d": w["features"]})
        peers = list(measured_peers(graph, w["kernel"], table, w["features"], _LOSS_BATCH, _PASSES))
        rows = [
            [
                f"{m.name}, {m.threads} thread{'s' * (m.threads > 1)}",
                f"{m.seconds * 1e3:.2f}" + ", scaled by rows" * (m.rows_run < m.rows),
                "our updates" if m.reached is None else "yes" if m.reached else "no",
            ]
            for m in peers
        ]
        said = []
        for name, worth in ((_TARGET, WORTH), ("u55c", 10.0)):
            design = compile(loaded, name, layout)
            run = design.run(assume(layout, w["rows"]), "model", epochs=_PASSES)
            assert isinstance(design, AnalyticsDesign)
            took = Epoch(design, run, len(table.pages), w["rows"], w["features"]).seconds()
            rows.append([f"ours, {name}", f"{float(took.total) * 1e3:.2f}", "yes"])
            streams = ", ".join(f"{k} {float(v) * 1e3:.3g} ms" for k, v in took.streams.items())
            judged = verdict(took, [m.beside() for m in peers], worth).text
            said.append(f"{name}: {streams}; {worth:g} × asked: {judged}")
        title = f"{w['name']}, {_PASSES} epochs, warm: ms beside CPUs, to our loss"
        yield plain(title, ["what", "ms", "loss reached"], rows, ". ".join(said) + ".")


def measured(only: Sequence[str] = (), cpu: bool = False) -> Iterator[Part]:
    """Return what is measured on this machine; `cpu`: other programs for the same work as well."""
    chosen = workloads(only)
    yield from _striders(chosen)
    if cpu:
        yield from _equal_loss(chosen)


def parts(cpu: bool = False) -> Iterator[Part]:
    """Return the report; `cpu`: with what this computer takes for the same work."""
    yield from tables()
    yield from measured(cpu=cpu)
