"""Fits over the columns of a table, on the command line and through the API."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.cli.main import run
from penstock.host.device.errors import DeviceError
from penstock.host.device.machine import DeviceMachine
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.qr import columns as c
from penstock.models.qr.table_config import (
    Segment,
    memory_for,
    pack_totals,
    places,
    registers,
    unpack_answer,
)
from penstock.models.strider.table import walk_table
from penstock.runs.outcome import differences
from testbench.command_line import done, reported, told

DIABETES = Path(__file__).parents[4] / "examples" / "data" / "diabetes"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text(
        "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
    )
    Path("t.csv").write_text(
        "y,a,b\n" + "".join(f"{n % 7 - 2 * (n % 5) + 0.5},{n % 7},{n % 5}\n" for n in range(200))
    )
    Path("n.csv").write_text("y,a,b\n1,2,3\n0,,4\n1,5,6\n2,3,3\n")


@pytest.mark.long
@pytest.mark.parametrize("name", ["f", "anew"])
def test_hardware_is_golden_and_model(name: str) -> None:
    """The command's verdict, with rows that come and go, and with NULL left out. `test_other_backends`
    and the device below keep their sums."""
    Path("anew.psk").write_text(
        "fit anew(x: input[d], y: output)\n  model <- least_squares(x, target=y, incremental=False)\n"
    )
    lines = "".join(
        f"{n % 7 - 2 * (n % 5) + 0.5},{'' if n % 9 == 4 else n % 7},{n % 5}\n" for n in range(700)
    )
    Path("holes.csv").write_text("y,a,b\n" + lines)
    options = "--data holes.csv --on-null skip --refits 3 --new 30 --gone 25 --target small"
    report = reported(f"simulate {name}.psk {options} -q")
    assert (
        report["bit_exact"] is True
        and report["cycles"]["rtl"] == report["cycles"]["model"] >= report["cycles"]["bound"] > 0
    )
    assert report["memory"]["bytes_read"] > 0 and report["result"]["weights"] == pytest.approx(
        [1, -2], abs=1e-5
    )


@pytest.mark.parametrize(
    "options",
    [
        "--data s.csv --refits 1 --new 3 --gone 2 --backend pysim --target ulx3s-25f --sample-weight w --group-by g --limbs 1",
        pytest.param(
            "--data t.csv --refits 2 --new 20 --gone 15 --backend board --target ulx3s-85f",
            marks=pytest.mark.long,
        ),
    ],
)
def test_other_backends(options: str) -> None:
    """In Amaranth's simulator, with weights and groups, and as a whole device that keeps pages and sums, whose fits go on from where the one
    before left them."""
    lines = Path("t.csv").read_text().splitlines()[:24]
    more = ["w,g", *(f"{n % 3 / 7},{'east' if n % 2 else 'west'}" for n in range(23))]
    Path("s.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(lines, more, strict=True)))
    report = reported(f"simulate f.psk -q {options}")
    assert (
        report["bit_exact"] is True
        and report["cycles"]["rtl"] == report["cycles"]["model"] >= report["cycles"]["bound"] > 0
    )


def test_a_device_is_opened_and_keeps_its_sums() -> None:
    """A fit that fails leaves the sums as they were; a table that is too large is said to be."""
    assert run("compile f.psk --data t.csv --target ulx3s-85f --out o -q".split()) == 0
    design, table = ps.load("o"), ps.open_table("t.csv")
    golden = design.run(table, changes=Changes(1, 2, 20, 15))
    bad = np.concatenate([table.pages[:1]] * 2)
    bad[1, 18] ^= 0xFF  # its page size
    plan, (first, second) = design.plan, places(design.plan).answers
    with ps.open("sim:o", memory_bytes=memory_for(plan, 2)) as device:
        changes, memory = Changes(1, 2, 20, 15), design.device_timing("block RAM")
        made = design.run(table, "board", device=device, changes=changes)
        assert differences(golden, made) == []
        assert made.cycles == design.run(table, "model", memory=memory, changes=changes).cycles
        machine = DeviceMachine(device)
        empty = c.initial_totals(plan.columns, [0, 0, -1], [0, 0, 0])
        walk = replace(plan.walk, format=empty.format)
        rows = plan.columns.format.to_integers(walk_table(table.pages, walk)[0])
        at, size = places(plan).pages, plan.answer_words * plan.bus_bytes
        nothing, some = Segment(), Segment(at, 1, 10, 30, 0)
        machine.write(at, bad)
        machine.write(first, pack_totals(empty, plan))
        assert machine.run(registers(first, second, [some, nothing])).error is None
        sums = [unpack_answer(machine.read(second, size), plan)[0]]
        wrong = machine.run(registers(second, first, [Segment(at, 2, 0, 400, 3), nothing]))
        assert wrong.error is not None and wrong.error.block == 4
        assert machine.run(registers(second, first, [nothing, nothing])).error is None
        sums.append(unpack_answer(machine.read(first, size), plan)[0])
        assert np.array_equal(sums[0].sums, sums[1].sums) and np.array_equal(
            sums[0].sums, c.add_rows(empty, rows[10:40]).sums
        )
        large = Table(table.schema, np.tile(table.pages, (4, 1)))
        with pytest.raises(
            DeviceError,
            match=rf"^the run takes {memory_for(plan, 8)} bytes of memory; the device has {memory_for(plan, 2)}$",
        ):
            design.run(large, "board", device=device, changes=Changes(1, 0))


@pytest.mark.parametrize("name", ["f", pytest.param("anew", marks=pytest.mark.long)])
def test_all_rows_go(name: str) -> None:
    """Nothing is left: the same nothing in golden model and hardware."""
    Path("s.csv").write_text("".join(Path("t.csv").read_text().splitlines(True)[:31]))
    Path("anew.psk").write_text(
        "fit anew(x: input[d], y: output)\n  model <- least_squares(x, target=y, incremental=False)\n"
    )
    assert reported(
        f"simulate {name}.psk --data s.csv --backend pysim --refits 1 --new 0 --gone 30 --target ulx3s-25f --on-singular drop -q"
    )["result"]["weights"] == [0, 0]


@pytest.mark.parametrize("backend", ["golden", pytest.param("pysim", marks=pytest.mark.long)])
def test_means_that_wander(backend: str) -> None:
    """A window that slides over a column with a trend: as good as least squares of the rows that are left, where fixed offsets would drop the column."""
    source, some = np.random.default_rng(7), 40 if backend == "pysim" else 200
    x = np.concatenate(
        [source.normal(-25, 0.1, some), source.normal(25, 0.1, some if some == 40 else 600)]
    ).astype(np.float32)
    y = (10 * (x - np.where(x > 0, 25, -25)) + source.normal(0, 0.05, len(x))).astype(np.float32)
    table, changes = (
        Table.from_columns({"x": x, "y": y}),
        Changes(1, len(x) // some - 1, some, some),
    )
    design = ps.compile("f.psk", "kcu105", table, limbs=1)
    made = design.run(table, backend, changes=changes)
    assert made.result is not None and made.codes is not None and made.counters["recentred"] == 1
    a = np.column_stack([np.ones(some), x[-some:]]).astype(np.float64)
    best = np.linalg.lstsq(a, y[-some:].astype(np.float64), rcond=None)[0]
    assert made.result["weights"][0] == pytest.approx(best[1], rel=1e-12)
    model = design.run(table, "model", changes=changes)
    assert model.counters["recentred"] == 1 and (backend == "golden" or made.cycles == model.cycles)


def test_a_bad_row_is_named() -> None:
    """An array of another length: block and line pointer, as the other engine has it."""
    pages = bytearray(DIABETES.with_suffix(".heap").read_bytes())
    at = pages.index(
        (10).to_bytes(4, "little") + (1).to_bytes(4, "little"), 8192
    )  # the dimension, and the lower bound behind it
    pages[at : at + 4] = (9).to_bytes(4, "little")
    Path("bad.heap").write_bytes(pages)
    Path("bad.json").write_text(DIABETES.with_suffix(".json").read_text())
    said = told(
        "simulate f.psk --data heap:bad.heap,bad.json?data_checksums=off --backend golden", 1
    )
    assert "error[E812]" in said and "block 1" in said


def test_check_finds_rows_that_end_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check f.psk --data n.csv --bind x=a,b --bind y=y".split()) == 1
    said = capsys.readouterr()
    assert "TUPLE_NULL" in said.err and "n.csv, row 2" in said.err and "is fine" not in said.out
    assert run("check f.psk --data n.csv --bind x=a,b --bind y=y --on-null skip".split()) == 0


def test_a_bad_page_is_named() -> None:
    pages = bytearray(DIABETES.with_suffix(".heap").read_bytes())
    pages[8192 + 18] ^= 0xFF
    Path("bad.heap").write_bytes(pages)
    Path("bad.json").write_text(DIABETES.with_suffix(".json").read_text())
    assert "block 1" in told(
        "simulate f.psk --data heap:bad.heap,bad.json?data_checksums=off --backend golden", 1
    )


def test_commands() -> None:
    report = reported("simulate f.psk --data t.csv --backend model --refits 5 --new 10 --gone 4 -q")
    assert (
        report["design"]["engine"] == "qr"
        and report["design"]["format"] == "limbs:1,1,1"
        and report["design"]["config"]["limbs"] == [1, 1, 1]
    )
    assert report["result"]["weights"] == pytest.approx([1, -2]) and report["result"][
        "bias"
    ] == pytest.approx([0.5])
    assert (
        report["cycles"]["model"] >= report["cycles"]["bound"] > 0
        and report["counters"]["rows"] == 200 - 20
    )
    assert (
        run(["check", "f.psk", "--data", "t.csv", "-q"]) == 0 and run(["check", "f.psk", "-q"]) == 0
    )
    assert run("model f.psk --data random:rows=300,regression --dim d=4 -q".split()) == 0


def test_rows_alone_tell_the_cycles() -> None:
    """Values do not matter: so many rows of a table's columns, or of the kernel's own, take as long as such a table."""
    for same in (
        ("--data t.csv", "--rows 200 --data t.csv"),
        ("--data random:rows=300 --dim d=4 --limbs 2", "--rows 300 --dim d=4"),
    ):
        reports = []
        for options in same:
            done(f"model f.psk {options} --refits 3 --new 20 --gone 5 -q --json r.json")
            reports.append(json.loads(Path("r.json").read_text()))
        assert len({(r["cycles"]["model"], r["table"]["pages"]) for r in reports}) == 1
        assert [r["table"]["assumed"] for r in reports] == [False, *[True] * (len(same) - 1)]
    assert run("model f.psk --rows 8388608 --refits 0 --dim d=4 -q".split()) == 0
    assert run("model f.psk --rows 300 --bind x=a,b --bind y=t -q".split()) == 0
    done("model f.psk --data random:rows=300,regression --bind x=a,b --bind y=t -q")


def test_limbs_that_are_asked_for() -> None:
    assert ps.compile("f.psk", table="t.csv").format_name == "limbs:1,1,1"
    assert ps.compile("f.psk", table="t.csv", limbs=2).format_name == "limbs:2,2,2"
    with pytest.raises(ValueError, match="takes no format"):
        ps.compile("f.psk", table="t.csv", format="fixed:8,8")


MESSAGES = [
    (
        "build f.psk --board ulx3s-85f --out o",
        "error[E505]: the size of dimension d is not known\n --> f.psk:1:7\n  |\n1 | fit f(x: input[d], y: output)\n"
        "  |       ^^^^^^^^^^^\nhint: give it with --dim d=SIZE\n",
    ),
    (
        "build f.psk --board tang-nano-9k --dim d=2 --out o",
        "error[E601]: kernel 'f' does not fit on tang-nano-9k: the smallest engine needs 14,875 LUT, the part has 8,640\n --> f.psk:2:12\n  |\n"
        "2 |   model <- least_squares(x, target=y)\n  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^\nhint: a larger target (--target, --board) would help; "
        "it fits on --target ulx3s-25f\n",
    ),
    (
        "build f.psk --board ulx3s-85f --dim d=2 --out o --memory latency=3,bytes=8",
        "error[E902]: --memory is not for builds of fit kernels\n"
        " --> penstock build\nhint: leave --memory out: the board has the memory that it has\n",
    ),
    (
        "model f.psk --rows 9 --dim d=2 --target icebreaker",
        "error[E601]: kernel 'f' does not fit on icebreaker: its memory port is 4 bytes wide, a fit's sums have 8\n"
        " --> f.psk:2:12\n  |\n2 |   model <- least_squares(x, target=y)\n"
        "  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^\nhint: choose a target with wider ports (--target); `penstock targets` lists them; "
        "it fits on --target ulx3s-25f\n",
    ),
    (
        "model f.psk --rows 8388609 --refits 1 --gone 1 --new 1 --dim d=4",
        "error[E701]: 8,388,609 rows are more than the sums of a fit hold: 8,388,608\n --> rows\n"
        "hint: fewer rows, or more that go (--gone)\n",
    ),
    (
        "model f.psk --rows 7 --bind x=a,b --refits 4",
        "error[E701]: 7 rows are too few for 4 refits with 50 new ones each\n --> --rows\n"
        "hint: more rows, or fewer --refits, --new or --gone\n",
    ),
    (
        "model f.psk --data t.csv --new 10 --gone 60",
        "error[E701]: 200 rows are too few for 4 refits with 60 that go each\n --> t.csv\n"
        "hint: more rows, or fewer --refits, --new or --gone\n",
    ),
    (
        "model f.psk --rows 7000 --refits 65536 --new 0",
        "error[E701]: 65,537 fits are too many to be played through: the most is 65,536\n --> --refits\n"
        "hint: fewer will do: fewer --groups, or fewer --refits of each\n",
    ),
    (
        "simulate f.psk --data t.csv --backend golden --format float32",
        "error[E902]: --format float32 is not for fits over columns\n --> penstock simulate\n"
        "hint: leave --format out: each column has a unit of its own; --limbs says how many bits its values keep\n",
    ),
    (
        "check f.psk --data random:rows=5000000",
        "error[E701]: 5,000,000 rows are too many to be played through: the most is 4,194,304\n"
        " --> random:rows=5000000\nhint: penstock model --rows N needs no table at all\n",
    ),
    (
        "check f.psk --bind z=a --dim d=2",
        "error[E616]: the kernel f has no input or output z\n --> f.psk:1:5\n  |\n1 | fit f(x: input[d], y: output)\n"
        "  |     ^\nhint: columns can be bound to x, y\n",
    ),
    (
        "model f.psk --data t.csv --profile",
        "error[E902]: --profile is not for the engine qr\n --> penstock model\n"
        "hint: leave --profile out: the row `bound` says what limits the run\n",
    ),
    (
        "model f.psk --data t.csv --groups 3",
        "error[E902]: --groups is for fits of keys\n --> penstock model\n"
        "hint: leave --groups out: a table is one group of rows\n",
    ),
]


@pytest.mark.parametrize(("line", "message"), MESSAGES, ids=[line for line, _ in MESSAGES])
def test_messages(line: str, message: str) -> None:
    assert told(line, 1) == message


def test_nulls_can_be_left_out() -> None:
    assert run("model f.psk --data n.csv --refits 0 --on-null skip -q".split()) == 0


@pytest.mark.parametrize("where", ["a NULL", "a line pointer behind the last row"])
def test_hardware_stops_where_golden_does(where: str) -> None:
    """The error of a bad page is compared as well, wherever it lies among the rows."""
    n = np.arange(12, dtype=np.float32)
    columns = {"a": np.ma.masked_array(n, n == (7 if where == "a NULL" else -1)), "y": n}
    table = Table.from_columns(columns, page_size=1024)
    if where != "a NULL":
        page = table.pages[0]
        lower = int(page[12:14].view("<u2")[0])
        # an unused line pointer that has storage
        page[lower : lower + 4] = np.array([8 << 17 | 512], dtype="<u4").view(np.uint8)
        page[12:14] = np.array([lower + 4], dtype="<u2").view(np.uint8)
    design = ps.compile("f.psk", "ulx3s-25f", table, bind={"x": ("a",)})
    golden, simulated = (design.run(table, backend) for backend in ("golden", "pysim"))
    assert golden.errors and golden.errors == simulated.errors
