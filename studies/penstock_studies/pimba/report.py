"""`penstock reproduce pimba`: the figures of Pimba (MICRO 2025) beside ours, with the ratio and what explains it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.report.papers import Cell, chart, facts, figures, geomean, plain
from penstock.report.parts import Grid, Part

from ..server import HONEST, MODELS, OURS, PUBLISHED, Assumptions, Breakdown, serve, systems
from ..server.neupims import device_bytes, latency
from ..server.operators import Category
from ..server.rounds import Design
from . import published

_LARGE = tuple(name for name in MODELS if name.endswith("-70b"))
_BATCH = published.BATCHES[-1]
#: the paper's systems, and with a plain GPU
_SYSTEMS = published.SYSTEMS
_ALL = ("GPU", *_SYSTEMS)
#: cells by series; `cause`: ours under honest assumptions
_Series = dict[str, list[Cell]]


def _data() -> Mapping[str, Any]:
    return figures(__package__, "pimba")


def parts() -> Iterator[Part]:
    """Return the report: under the paper's assumptions first, then under ones that charge what it leaves out."""
    yield facts(_data()["facts"])
    yield from _figure5()
    yield from _throughput("Figure 12", "A100", published.THROUGHPUT)
    yield from _figure13()
    yield from _figure14()
    yield from _figure15()
    yield from _throughput("Figure 16", "H100", published.THROUGHPUT_H100)
    yield from _ours()
    yield facts(_data()["causes"])


def _served(
    model: str, gpu: str, batch: int, assumptions: Assumptions, names: Sequence[str]
) -> list[Breakdown]:
    made = systems(gpu)
    return [serve(MODELS[model], made[name], batch, assumptions=assumptions) for name in names]


def _add(series: _Series, name: str, printed: Sequence[float], *ours: Sequence[float]) -> None:
    """Add a group to each series: its cell by our model under the paper's assumptions and honest ones."""
    for cells, their, mine, fair in zip(series.values(), printed, *ours, strict=True):
        cells.append(Cell(name, their, mine, f"{fair:.2f}"))


def _ratio(cell: Cell) -> str:
    return f"{cell.ratio:.3f}"


def _tables(title: str, first: str, series: _Series, note: str = "") -> Iterator[Grid]:
    """Return two tables that fit a terminal of 80 columns: numbers beside the paper's; then the ratio, and what is honest."""
    rows = list(zip(*series.values(), strict=True))
    heads = [head for name in series for head in (name, "paper")]
    numbers = [[f"{x:.2f}" for c in row for x in (c.ours, c.printed)] for row in rows]
    beside = [[row[0].name, *cells] for row, cells in zip(rows, numbers, strict=True)]
    yield plain(title, [first, *heads], beside, note)
    held = [[row[0].name, *(text for c in row for text in (_ratio(c), c.cause))] for row in rows]
    heads = [head for name in series for head in (f"{name} ratio", "honest")]
    yield plain(title.replace(":", ", ratios:", 1), [first, *heads], held)


def _throughput(
    figure: str, gpu: str, bars: dict[str, tuple[tuple[float, ...], ...]]
) -> Iterator[Part]:
    """Return tokens a second beside a plain GPU: a table, and a chart for each size of model."""
    series: _Series = {name: [] for name in _SYSTEMS}
    unit = "tokens a second, GPU = 1"
    for model, batches in bars.items():
        for batch, theirs in zip(published.BATCHES, batches, strict=True):
            ours = (_gains(model, gpu, batch, a) for a in (PUBLISHED, HONEST))
            _add(series, f"{model} {batch}", theirs, *ours)
    worst = max(abs((cell.ratio or 0) - 1) for cells in series.values() for cell in cells)
    note = f"Every bar is within {worst:.1%} of the paper's under its assumptions."
    title = f"{figure}: tokens a second on {gpu}, GPU = 1"
    yield from _tables(title, "model, batch", series, note)
    models, step = list(bars), 6
    for start in range(0, len(models), step):
        size = "models of 70 billion" if models[start] in _LARGE else "small models"
        part = slice(start * len(published.BATCHES), (start + step) * len(published.BATCHES))
        shown = {name: cells[part] for name, cells in series.items()}
        yield chart(f"{figure}, {gpu}, {size}", shown, unit, _data()["notes"]["bars"], line=1.0)
    if others := [name for name in MODELS if name not in bars]:
        series = {name: [] for name in _SYSTEMS}
        for model in others:
            for batch in published.BATCHES:
                gains = _gains(model, gpu, batch, PUBLISHED)
                for cells, gain in zip(series.values(), gains, strict=True):
                    cells.append(Cell(f"{model} {batch}", None, gain))
        note = _data()["notes"]["small"]
        yield chart(f"{figure}, {gpu}, small models", series, unit, note, line=1.0)


def _gains(model: str, gpu: str, batch: int, assumptions: Assumptions) -> list[float]:
    base, *others = _served(model, gpu, batch, assumptions, _ALL)
    return [base.latency / other.latency for other in others]


def _figure5() -> Iterator[Part]:
    titles = (Design.TIME_MULTIPLEXED.title, Design.PIPELINED.title)
    rows, series = [], {title: list[Cell]() for title in titles}
    for model, theirs in published.UPDATE_SPEEDUP.items():
        ours = []
        for assumptions in (PUBLISHED, HONEST):
            base, *others = _served(model, "A100", _BATCH, assumptions, ("GPU", *titles))
            update = base.seconds[Category.STATE_UPDATE]
            ours.append([update / other.seconds[Category.STATE_UPDATE] for other in others])
        _add(series, model, theirs, *ours)
        for title, cells in series.items():
            cell = cells[-1]
            numbers = (f"{cell.ours:.2f}", f"{cell.printed:.2f}", _ratio(cell), cell.cause)
            rows.append([f"{model}, {title}", *numbers])
    heads = ["model, units", "ours", "paper", "ratio", "honest"]
    yield plain(f"Figure 5: state updates a second, batch {_BATCH}, A100 = 1", heads, rows)
    yield chart("Figure 5", series, "state updates a second, GPU = 1", "", line=1.0)


def _figure13() -> Iterator[Part]:
    """Return the latency of a token of models of 70 billion by category, and its two averages."""
    rows = []
    gains: dict[tuple[Category, str], list[float]] = {}
    drawn = (Category.STATE_UPDATE, Category.ATTENTION)
    shares: dict[Category, dict[str, list[float]]] = {c: {} for c in drawn}
    wholes: dict[str, list[float]] = {}
    for model in _LARGE:
        for batch in published.BATCHES:
            served = _served(model, "A100", batch, PUBLISHED, _ALL)
            whole = served[0].latency
            if batch == _BATCH:
                wholes[model] = [breakdown.latency / whole for breakdown in served]
                for category in drawn:
                    if served[0].seconds[category]:
                        parts_ = [breakdown.seconds[category] / whole for breakdown in served]
                        shares[category][model] = parts_
                for name, breakdown in zip(_ALL, served, strict=True):
                    cells = [breakdown.seconds[c] / whole for c in Category]
                    cells.append(breakdown.latency / whole)
                    rows.append([f"{model} {name}", *(f"{100 * cell:.1f}" for cell in cells)])
            best = served[-1].seconds
            for category in drawn:
                if best[category]:
                    for name, other in (("GPU", served[0]), ("GPU+PIM", served[2])):
                        gain = other.seconds[category] / best[category]
                        gains.setdefault((category, name), []).append(gain)
    heads = ["model, system", "state", "att.", "disc", "conv", "GEMM", "comm", "rest", "all"]
    title = f"Figure 13: latency of a token, batch {_BATCH}, in % of the plain GPU's"
    note = f"Columns: {', '.join(map(str, Category))}, and their sum."
    yield plain(title, heads, rows, note)
    theirs = {
        Category.STATE_UPDATE: published.UPDATE_LATENCY,
        Category.ATTENTION: published.ATTENTION_LATENCY,
    }
    means = []
    averages: _Series = {}
    for (category, name), values in gains.items():
        cell = Cell(str(category), theirs[category][name != "GPU"], geomean(values))
        averages.setdefault(f"beside {name}", []).append(cell)
        numbers = (f"{cell.ours:.1f}", f"{cell.printed}", _ratio(cell))
        means.append([f"{category}, beside {name}", *numbers])
    title = "Figure 13: Pimba's latency, times better (mean of all batches)"
    yield plain(title, ["operator", "ours", "paper", "ratio"], means)
    for what, bars in (("all", wholes), *((str(c), shares[c]) for c in drawn)):
        series = {
            name: [Cell(model, None, values[n]) for model, values in bars.items()]
            for n, name in enumerate(_ALL)
        }
        note = f"Batch {_BATCH}, models of 70 billion."
        yield chart(f"Figure 13, {what}", series, "of the GPU's latency", note)
    note = _data()["notes"]["averages"]
    yield chart("Figure 13, averages", averages, "times less time", note, line=1.0)


def _figure14() -> Iterator[Part]:
    series: _Series = {name: [] for name in _SYSTEMS}
    for model, theirs in published.ENERGY.items():
        ours = []
        for assumptions in (PUBLISHED, HONEST):
            base, *others = _served(model, "A100", _BATCH, assumptions, _ALL)
            ours.append([other.picojoules / base.picojoules for other in others])
        _add(series, model, theirs, *ours)
    title = f"Figure 14: energy of a token, batch {_BATCH}, GPU = 1"
    yield from _tables(title, "model", series)
    yield chart("Figure 14", series, "energy, GPU = 1", "", line=1.0)


def _figure15() -> Iterator[Part]:
    model, prompt = "zamba2-70b", 1024
    shape, made = MODELS[model], systems()
    times: _Series = {"NeuPIMs": [], "Pimba": []}
    sizes: _Series = {"NeuPIMs": [], "Pimba": []}
    for n, token in enumerate(published.NEUPIMS_TOKENS):
        context = prompt + token - 1
        pimba = serve(shape, made["Pimba"], _BATCH, prompt=context, tokens=2).latency
        took = {"NeuPIMs": latency(shape, _BATCH, context) * 1e3, "Pimba": pimba * 1e3}
        for name, system in (("NeuPIMs", made["GPU"]), ("Pimba", made["Pimba"])):
            theirs, held = (values[n] for values in published.NEUPIMS[name])
            size = device_bytes(shape, system, _BATCH, context + 1) / 2**30
            times[name].append(Cell(str(token), theirs, took[name]))
            sizes[name].append(Cell(str(token), held, size))
    heads = ["token", *(head for name in times for head in (name, "paper", "ratio"))]
    where = f"of {model}, batch {_BATCH}, 8 devices"
    note = _data()["notes"]["figure 15"]
    for what, series in (("milliseconds of a token", times), ("GiB of a device", sizes)):
        rows = [
            [row[0].name, *(x for c in row for x in (f"{c.ours:.1f}", f"{c.printed}", _ratio(c)))]
            for row in zip(*series.values(), strict=True)
        ]
        yield plain(f"Figure 15: {what} {where}", heads, rows, note if series is times else "")
    yield chart("Figure 15", times, "ms a token", "")


def _ours() -> Iterator[Part]:
    """Return what our schedules of the same units gain over the published one."""
    names = ("Pimba", *OURS)
    gained, tokens = [], []
    for model, shape in MODELS.items():
        operator = Category.STATE_UPDATE if shape.layers else Category.ATTENTION
        gained.append([f"{model}, {operator}"])
        tokens.append([model])
        for assumptions in (PUBLISHED, HONEST):
            base, *others = _served(model, "A100", _BATCH, assumptions, ("GPU", *names))
            theirs = others[0]
            for mine in others[1:]:
                gained[-1].append(f"{theirs.seconds[operator] / mine.seconds[operator]:.2f}")
            tokens[-1] += [f"{base.latency / other.latency:.2f}" for other in others]
    note = _data()["notes"]["schedules"]
    title = f"Our schedules of the same units, batch {_BATCH}, A100"
    heads = ["model, operator", "paper's: halves", "groups", "honest: halves", "groups"]
    yield plain(f"{title}: the operator's gain", heads, gained, note)
    heads = ["model", "paper's: Pimba", "halves", "groups", "honest: Pimba", "halves", "groups"]
    yield plain(f"{title}: tokens a second, GPU = 1", heads, tokens)
