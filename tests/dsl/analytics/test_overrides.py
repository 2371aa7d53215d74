"""What a run may set: metas, starts of models, epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.dsl.analytics.overrides import initial_value, with_overrides
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.graph import Uniform
from penstock.dsl.core.load import from_text

GRAPH = from_text(
    "kernel f(x: input[d], w: model[d], rate: meta = 0.5, scale: meta)\n w <- w - rate * scale * x",
    "f.psk",
).trace(d=3)


def message(**options: Any) -> str:
    with pytest.raises(KernelError) as caught:
        with_overrides(GRAPH, **{"metas": {"scale": 1}, **options})
    return str(caught.value)


def test_values() -> None:
    graph = with_overrides(GRAPH, {"rate": "0.25", "scale": 2}, {"w": [1, 2, 3]}, epochs=7)
    assert (graph.variables["rate"].value, graph.variables["scale"].value, graph.epochs) == (
        0.25,
        2.0,
        7,
    )
    assert initial_value(graph.variables["w"]).tolist() == [1, 2, 3]
    assert GRAPH.variables["rate"].value == 0.5
    assert GRAPH.epochs == 1


def test_starts(tmp_path: Path) -> None:
    file = tmp_path / "w.npy"
    np.save(file, np.array([4, 5, 6], dtype=np.float32))
    w = with_overrides(GRAPH, {"scale": 1}, {"w": str(file)}).variables["w"]
    assert initial_value(w).tolist() == [4, 5, 6]
    w.init = 0.5
    assert initial_value(w).tolist() == [0.5] * 3
    w.init = Uniform(-1, 1, 3)
    assert initial_value(w).tolist() == initial_value(w).tolist()
    assert (np.abs(initial_value(w)) <= 1).all()


PLACE = " --> f.psk:1:{}\n  |\n1 | kernel f(x: input[d], w: model[d], rate: meta = 0.5, scale: meta)\n  | {}\n"
W = PLACE.format(23, " " * 22 + "^" * 11)
RATE = PLACE.format(36, " " * 35 + "^" * 16)
SCALE = PLACE.format(54, " " * 53 + "^" * 11)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"metas": {"rat": 1}},
            "error[E501]: rat is not a meta of the kernel f\n --> --set\nhint: did you mean rate?",
        ),
        (
            {"metas": {"w": 1}},
            "error[E501]: w is not a meta of the kernel f\n --> --set\nhint: its metas are rate, scale",
        ),
        (
            {"init": {"x": 1}},
            "error[E501]: x is not a model of the kernel f\n --> --init\nhint: its models are w",
        ),
        (
            {"metas": {"rate": "fast"}},
            f"error[E502]: the meta rate must be a finite number, not fast\n{RATE}hint: as in --set rate=0.05",
        ),
        (
            {"metas": {"rate": "inf"}},
            f"error[E502]: the meta rate must be a finite number, not inf\n{RATE}hint: as in --set rate=0.05",
        ),
        (
            {"metas": {}},
            f"error[E503]: the meta scale has no value\n{SCALE}hint: give it with --set scale=VALUE",
        ),
        (
            {"init": {"w": [1, 2]}},
            f"error[E443]: the start of w is [2], but the model is [3]\n{W}hint: give an array of the shape [3], one number for "
            "all its elements, or uniform(low, high, seed=1)",
        ),
        (
            {"init": {"w": [np.inf] * 3}},
            f"error[E442]: the start of w is not finite\n{W}hint: a model starts at a number, an array of its shape, or "
            "uniform(low, high, seed=1)",
        ),
        (
            {"init": {"w": "none.npy"}},
            f"error[E506]: the start of w: there is no file none.npy\n{W}"
            "hint: write an array of the shape [3] with numpy.save",
        ),
        (
            {"epochs": 0},
            "error[E441]: epochs must be from 1 to 2147483647, not 0\n --> --epochs\nhint: one pass over the table is the least",
        ),
    ],
)
def test_messages(options: dict[str, Any], expected: str) -> None:
    assert message(**options) == expected


def test_not_an_array_file(tmp_path: Path) -> None:
    file = tmp_path / "w.npy"
    for content in (b"", b"1 2 3", b"PK\x03\x04"):
        file.write_bytes(content)
        assert f"the start of w: {file} is not a .npy file" in message(init={"w": file})
    np.savez(tmp_path / "w.npz", w=np.ones(3))
    assert "is not a .npy file" in message(init={"w": tmp_path / "w.npz"})
