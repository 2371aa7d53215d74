"""The devices of boards, Verilated whole with their own kind of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock.api as api
import penstock.commands.boards as building
from penstock.boards.build import Build, _keep, _kept
from penstock.boards.catalogue import boards
from penstock.data.assumed import fitted
from penstock.dsl.core.bind import schema_for
from penstock.engines.analytics.design import AnalyticsDesign
from penstock.models.memory import spram
from penstock.models.resources import Resources
from penstock.report.words import resource_text
from penstock.runs.devices import open_device
from testbench.command_line import told

KERNEL = """import penstock as ps

@ps.kernel(epochs=3)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


def test_an_ultraplus_device(tmp_path) -> None:
    """Single-port RAM and addresses of just its size: golden bit for bit, and the cycles of its timing one for one; a table that is too large is said."""
    (tmp_path / "k.py").write_text(KERNEL)
    board = boards()["icebreaker"]
    assert board.memory.kind == "SPRAM"
    part = replace(board, lut=100_000, ff=100_000)
    rng = np.random.default_rng(5)
    columns = {name: rng.normal(size=90).astype(np.float32) for name in ("x0", "x1", "y")}
    table = api.Table.from_columns(columns, "t", page_size=1024)
    design = api.compile(
        tmp_path / "k.py",
        part,
        table,
        "fixed:4,6",
        dims={"d": 2},
        bind={"x": ("x0", "x1"), "y": ("y",)},
    )
    fixed = {"lean": True, "memory_bytes": board.memory.bytes, "page_buffers": 2}
    plan = replace(design.plan, striders=replace(design.plan.striders, **fixed))
    design = replace(design, plan=plan)
    with design.device_in_simulation(0) as device:
        assert device.identity.memory_bytes == board.memory.bytes
        for epochs in (2, 1):
            golden, done = (
                design.run(table, "golden", epochs=epochs),
                design.run(table, "board", device=device, epochs=epochs),
            )
            assert (
                golden.codes is not None
                and done.codes is not None
                and np.array_equal(golden.codes["w"], done.codes["w"])
            )
            assert (
                done.cycles
                == design.run(table, "model", memory=spram(board.bus_bytes), epochs=epochs).cycles
            )
        device.write(board.memory.bytes - 5, b"ended")
        assert device.read(board.memory.bytes - 5, 5) == b"ended"
        many = api.Table.from_columns(
            {name: np.tile(column, 45) for name, column in columns.items()}, "t", page_size=1024
        )
        with pytest.raises(api.KernelError, match=f"icebreaker has {board.memory.bytes:,}"):
            design.run(many, "board", device=device)


@pytest.mark.parametrize(
    ("board", "dims", "columns", "format"),
    [
        ("icebreaker", {"d": 2}, {"x": ("a", "b"), "y": ("y",)}, "fixed:4,6"),
        ("hx8k-evn", {"d": 2}, None, "fixed:4,6"),
        ("tang-nano-9k", {"d": 4}, None, "fixed:8,8"),
        ("crosslink-nx-evn", {"d": 4}, None, "fixed:8,8"),
    ],
)
def test_what_was_placed_is_planned(
    board: str, dims: dict[str, int], columns: dict[str, tuple[str, ...]] | None, format: str
) -> None:
    """The estimate does not refuse what docs/howto/boards.md has placed."""
    part = boards()[board]
    kernel = api.load_kernel(Path(__file__).parents[2] / "examples" / "logistic.py")
    schema = replace(
        fitted(schema_for(kernel.trace(dims), bindings=columns)), page_size=part.page_size
    )
    plan = api.compile(kernel, part, schema, format, dims=dims, bind=columns).plan
    assert (plan.threads, plan.lanes, plan.striders.walkers) == (1, 1, 1)


def test_more_epochs_than_a_board_counts(tmp_path: Path) -> None:
    logistic = str(Path(__file__).parents[2] / "examples" / "logistic.py")
    assert "epochs on hx8k-evn must be from 1 to 1048575, not 2000000" in " ".join(
        told(
            f"build {logistic} --board hx8k-evn --dim d=2 --format fixed:4,6 --epochs 2000000 --out {tmp_path / 'o'}",
            1,
        ).split()
    )


def test_a_part_without_multipliers() -> None:
    assert (
        resource_text(Resources(768, 0, 0, 16), boards()["hx8k-evn"])
        == "LUT 768 (10%) · FF 0 (0%) · DSP 0 · BRAM 16 (50%), estimated"
    )


@pytest.mark.parametrize(
    ("board", "memory"),
    [("icebreaker", "SPRAM"), ("ulx3s-85f", "block RAM"), ("colorlight-i5-sdram", "block RAM")],
)
def test_the_simulated_device_of_a_build_has_its_memory(
    board: str, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sim:DIR` of what `penstock build` wrote, whose manifest says which memory the board has: its kind decides on the cycles of a run."""
    import penstock.sim.board as simulated

    (tmp_path / "k.py").write_text(KERNEL)
    part = boards()[board]
    design = api.compile(
        tmp_path / "k.py",
        part,
        None,
        "fixed:4,6",
        dims={"d": 2},
        bind={"x": ("x0", "x1"), "y": ("y",)},
    )
    made = Build(board, 12.0, 15.0, "", "", 1, Resources(1, 1, 1, 1), (), 0.0, {}, {}, "", {})
    building._publish(design, part, made, tmp_path / "out")
    asked: dict[str, object] = {}

    def generate(*hardware: object, **options: object) -> str:
        asked.update(options)
        raise InterruptedError

    monkeypatch.setattr(simulated, "generate", generate)
    monkeypatch.setattr(AnalyticsDesign, "hardware", lambda self: ("engine", "library"))
    with pytest.raises(InterruptedError):
        open_device(f"sim:{tmp_path / 'out'}")
    size = part.memory.bytes if part.memory.kind != "SDRAM" else 1 << 18
    assert asked == {"memory_bytes": size, "memory": memory, "baud": simulated.BAUD}


def test_a_build_in_the_cache_is_sealed_with_its_name(tmp_path: Path) -> None:
    """One under another's name, or damaged, is made anew."""
    one, other = tmp_path / "board-1", tmp_path / "board-2"
    runs, need = ((1, 40.5, 2.0),), Resources(3, 4, 0, 1)
    files = {"penstock.bit": bytes(range(256)), "netlist.v": b"module penstock; endmodule\n"}
    made = Build("b", 12.0, 15.0, "", "", 1, need, runs, 0.5, {"LUT4": 3}, {}, "d", files)
    _keep(one, made)
    assert _kept(one) == made
    other.write_bytes(one.read_bytes())
    assert _kept(other) is None
    one.write_bytes(one.read_bytes().replace(b"LUT4", b"LUT5"))
    assert _kept(one) is None
