"""`penstock reproduce fusemax`: FuseMax (MICRO 2024) beside its closed form."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.report.papers import Cell, chart, facts, figures, number, plain
from penstock.report.parts import Part

from .closed_form import MODELS, Array


def _data() -> Mapping[str, Any]:
    return figures(__package__, "fusemax")


def as_printed(value: float, printed: str) -> str:
    """Write a value with as many digits behind the point as were printed."""
    return f"{value:.{len(printed.partition('.')[2])}f}"


def parts() -> Iterator[Part]:
    """Return the report: BERT beside what was printed, then all four models."""
    data, array = _data(), Array()
    every = [(model, length) for model in MODELS.values() for length in data["all"]]
    limited = [array.traffic(*each) > array.compute(*each) for each in every]
    tiles = data["lengths"][-1] // array.side
    bound = "cycles, not bandwidth, are the longer" if not any(limited) else "bandwidth is longer"
    share = array.utilisation(64, tiles)
    yield facts(data["facts"], tile=array.tile(64, tiles), share=share, bound=bound)
    yield from _bert(data, array)
    heads = ["model", *(f"{length >> 10}K" for length in data["all"])]
    rows = [
        [name, *(number(array.seconds(model, length)) for length in data["all"])]
        for name, model in MODELS.items()
    ]
    yield plain("All four models, ours: seconds", heads, rows, data["notes"]["models"])
    yield facts(data["causes"])


def _bert(data: Mapping[str, Any], array: Array) -> Iterator[Part]:
    rows, cells = [], {name: list[Cell]() for name in data["bert"]}
    printed = zip(data["names"], data["lengths"], *data["bert"].values(), strict=True)
    for name, length, unfused, flat, theirs in printed:
        ours = array.seconds(MODELS["BERT"], length)
        beside = (f"{text} ({float(text) / ours:.1f} ×)" for text in (unfused, flat))
        rows.append([name, as_printed(ours, theirs), theirs, *beside])
        for series, text in zip(cells, (unfused, flat, theirs), strict=True):
            mine = ours if series == "FuseMax" else None
            cells[series].append(Cell(name, float(text), mine))
    heads = ["keys", "FuseMax", "printed", "unfused", "FLAT"]
    yield plain("Attention of BERT, batch 64: seconds", heads, rows, data["notes"]["bert"])
    yield chart("Attention of BERT", cells, "seconds", log=True)
