"""`penstock reproduce neupims`: NeuPIMs (ASPLOS 2024) and what Pimba drew of it beside ours."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from penstock.report.papers import Cell, chart, facts, figures, plain
from penstock.report.parts import Part

from ..pimba import published
from .drawn import parts_of
from .estimate import Channel
from .stages import MODELS, Device, Times

_MODEL, _BATCH, _PROMPT = "zamba2-70b", 128, 1024
#: where state updates are, whether attention is hidden
_WAYS = {
    "GPU, hidden": (True, True),
    "GPU, in turn": (True, False),
    "banks, hidden": (False, True),
    "banks, in turn": (False, False),
}


def _data() -> Mapping[str, Any]:
    return figures(__package__, "neupims")


def parts() -> Iterator[Part]:
    """Return the report: the scheduler's estimate, the machine of the paper, and Pimba's figure of it."""
    data = _data()
    asked = {name: value for name, value in data["estimate"].items() if name != "cycles"}
    cycles = Channel().attention(**asked)
    yield facts(data["facts"], **asked, cycles=cycles, printed=data["estimate"]["cycles"])
    yield from _machine(data)
    yield from _figure15(data)


def times(model: str, batch: int) -> Times:
    """Return a token's times for requests whose answers are, at random, as far as they can be."""
    data = _data()
    written = np.random.default_rng(1).integers(0, data["answer"], batch)
    return Device().times(MODELS[model], (data["prompt"] + written).tolist())


def _machine(data: Mapping[str, Any]) -> Iterator[Part]:
    rows, gains = [], list[tuple[float, float]]()
    for model in MODELS:
        for batch in data["batches"]:
            took = times(model, batch)
            gain = (took.alone / took.overlapped, took.in_turn / took.overlapped)
            gains.append(gain)
            cycles = (f"{c / 1e3:,.0f}" for c in (took.alone, took.in_turn, took.overlapped))
            rows.append([f"{model} {batch}", *cycles, *(f"{each:.2f}" for each in gain)])
    means = (f"{np.mean([gain[n] for gain in gains]):.2f}" for n in (0, 1))
    rows.append(["mean", "", "", "", *means])
    theirs = (f"{data[name]:.1f}" for name in ("beside_alone", "beside_in_turn"))
    rows.append(["paper's average", "", "", "", *theirs])
    heads = ["model, batch", "alone", "in turn", "halves", "alone ÷ halves", "in turn ÷ halves"]
    title = "NeuPIMs' own machine: thousands of cycles of a token"
    yield plain(title, heads, rows, data["notes"]["machine"])
    numbers = attrgetter("array_cycles", "bank_cycles", "cycles")
    drawn = zip("ABCDEF", times("gpt3-7b", data["batches"][-1]).stages, strict=True)
    lines = [
        [f"{name}: {stage.arrays}", stage.banks or "–", *map("{:,}".format, numbers(stage))]
        for name, stage in drawn
    ]
    title = f"Six stages: gpt3-7b, {data['batches'][-1]} requests"
    heads = ["arrays", "banks", "arrays' cycles", "banks'", "stage"]
    yield plain(title, heads, lines, data["notes"]["stages"])


def _figure15(data: Mapping[str, Any]) -> Iterator[Part]:
    theirs = published.NEUPIMS["NeuPIMs"][0]
    made = [parts_of(_MODEL, _BATCH, _PROMPT + n - 1) for n in published.NEUPIMS_TOKENS]
    rows, cells = [], list[Cell]()
    for token, printed, each in zip(published.NEUPIMS_TOKENS, theirs, made, strict=True):
        ours = [1e3 * each.latency(gpu_update=g, hidden=h) for g, h in _WAYS.values()]
        cells.append(Cell(str(token), printed, ours[-1]))
        ratios = (f"{one:.1f} ({one / printed:.3f})" for one in ours)
        rows.append([str(token), f"{printed}", *ratios])
    title = f"Pimba's figure 15: milliseconds of a token of {_MODEL}, batch {_BATCH}"
    yield plain(title, ["token", "paper", *_WAYS], rows, data["notes"]["figure 15"])
    yield chart(
        "Pimba's figure 15, NeuPIMs", {"NeuPIMs": cells}, "ms a token", data["notes"]["chart"]
    )
    first = made[0]
    yield facts(
        data["causes"],
        bank=1e3 * first.bank_update,
        gpu=1e3 * first.gpu_update,
        constant=1e3 * (first.gpu_update - first.bank_update),
        moved=1e3 * first.moved,
        left=theirs[0] - 1e3 * (first.products + first.rest),
    )
