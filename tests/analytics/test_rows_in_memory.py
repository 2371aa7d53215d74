"""Models whose rows lie in memory: results as of models on the chip, cycles of the model, whatever is held and whatever memory answers."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.engines.analytics import sections
from penstock.engines.analytics.in_memory import row_places, row_spaces
from penstock.engines.analytics.placement import quicker
from penstock.engines.base import Given
from penstock.hdl.rows import lookup, mover
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.memory.dealt import Deal
from penstock.models.rows.unit import Directory, RowTable
from penstock.sim.machine import PAGE
from penstock.sim.windows import Window, Windows
from penstock.targets import Target, target_named
from testbench.kernels.by_index import (
    FIELDS,
    LRMF,
    arrays,
    batched,
    columns,
    fields,
    one_tuple,
    ratings,
    with_channels,
)

#: a part of which rows of models may have a port
TWO = replace(target_named("small"), ports=2)
MEMORIES = ["latency=1,bytes=4", "latency=33,bytes=8", "sdr-166", "ddr4-2400", "hbm2"]


def _compiled(
    text: str,
    table: dict[str, np.ndarray],
    dims: dict[str, int],
    folder: Path,
    place: Mapping[str, str],
    format: str = "fixed:8,8",
    part: Target = TWO,
    **options: object,
) -> ps.Design:
    (folder / "k.psk").write_text(text)
    fixed = {name: options.pop(name) for name in ("lanes", "hot", "dedupe") if name in options}
    choices, options = ps.Choices(place=place, **fixed), {"on_overflow": "saturate"} | options
    design = ps.compile(
        folder / "k.psk", part, table, format, dims=dims, choices=choices, **options
    )
    assert design.compiled.refused is None and design.compiled.plan.rows.tables
    return design


@pytest.mark.parametrize(
    ("part", "ports", "factors", "deal", "memory"),
    [
        pytest.param("small", 3, 10, Deal(1, 2), "latency=5,bytes=3", marks=pytest.mark.long),
        ("small", 8, 3, Deal(2, 2), "hbm2"),
        pytest.param("small", 9, 2, Deal(2, 1), "hbm2", marks=pytest.mark.long),
        pytest.param("u55c", 32, 10, Deal(4, 2), "dram", marks=pytest.mark.long),
    ],
)
def test_several_ports(
    part: str, ports: int, factors: int, deal: Deal, memory: str, tmp_path: Path
) -> None:
    """Rows of several tables over ports with memories of their own, some of them written back while others come: results are those of one port."""
    table = ratings(np.random.default_rng(8), 40, 600, 900)
    (tmp_path / "k.psk").write_text(LRMF + "  batch 8\n")
    place, found = {"P": "memory:20", "Q": "memory:17"}, []
    for many in (2, ports):
        target, choices = with_channels(target_named(part), many), ps.Choices(place=place)
        more = {"dims": {"m": 600, "n": 900, "k": factors}, "choices": choices, "memory": memory}
        design = ps.compile(tmp_path / "k.psk", target, table, "float32", **more)
        found.append((design, _equal(design, table, "rtl", memory)))
    (one, moved), (design, dealt) = found
    assert (one.compiled.plan.rows.deal, design.compiled.plan.rows.deal) == (Deal(), deal)
    assert moved == dealt and dealt["rows_written"] > 60
    same = [of.run(table, backend="golden").codes for of in (one, design)]
    assert all(np.array_equal(same[0][name], codes) for name, codes in same[1].items())
    spaces = [port.space for port in design.compiled.bus_ports]
    assert spaces == [0, *range(1, deal.ports + 1)]
    images = design.compiled.images()
    assert [f"rows_m{k}.bin" in images for k in (0, 1, deal.ports)] == [False, True, True]
    said = [sections._plan(of.compiled.plan) for of in (one, design)]
    assert "channel each" not in said[0] and f"over {deal.ports} ports with a channel" in said[1]


def test_what_channels_hold(tmp_path: Path) -> None:
    """Rows go over as many ports as hold them, and over one where all channels are too small."""
    (tmp_path / "k.psk").write_text(LRMF)
    table, part = ratings(np.random.default_rng(8), 40, 60, 90), target_named("small")
    part = with_channels(replace(part, memory=replace(part.memory, bytes=1 << 20)), 9)
    place = ps.Choices(place={"P": "memory", "Q": "memory"})
    for rows, deal in ((60, Deal(1, 2)), (20_000, Deal(4, 2)), (60_000, Deal())):
        dims = {"m": rows, "n": 90, "k": 3}
        design = ps.compile(tmp_path / "k.psk", part, table, "float32", dims=dims, choices=place)
        assert design.compiled.plan.rows.deal == deal


def test_a_line_gives_way_behind_its_own_batch(tmp_path: Path) -> None:
    """Not behind those that came since: they need not be through."""
    rng = np.random.default_rng(5)
    table = {"g": rng.integers(0, 600, 300).astype(np.int32), "x": rng.integers(0, 9, 300)}
    text = "kernel k(g: index[n], x: input, many: model[n])\n  many[g] += x\n"
    design = _compiled(text, table, {"n": 600}, tmp_path, {"many": "memory:128"}, "fixed:16,4")
    _equal(design, table, "rtl", "latency=33,bytes=8")
    run = design.run(table, backend="model", memory="latency=33,bytes=8")
    assert run.counters["rows_fetched"] > 200 and run.cycles < 12 * 300


@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("joined", [1, 4])
def test_what_a_port_has(channels: int, joined: int) -> None:
    """Bytes lie where `Deal.place` says, and come back."""
    deal = Deal(channels, joined)
    content = np.random.default_rng(1).integers(0, 256, 3 * PAGE * channels).astype(np.uint8)
    parts = deal.parts(content, 8)
    assert len(parts) == channels * joined and np.array_equal(deal.whole(parts, 8), content)
    for word, at in enumerate(range(0, len(content), 8)):
        part, wide = word % joined, at - word % joined * 8
        channel, there = deal.place(wide)
        assert channel == wide // PAGE % channels
        held = parts[channel * joined + part][there : there + 8]
        assert np.array_equal(held, content[at : at + 8])


def _moved(run: ps.Run) -> dict[str, int]:
    names = ("row_lookups", "row_hits", "rows_fetched", "rows_written")
    return {n: run.counters[n] for n in names}


def _equal(design: ps.Design, table: dict[str, np.ndarray], backend: str, memory: str) -> dict:
    """Demand the golden result, the model's cycles and its counts; return these."""
    golden, model = (
        design.run(table, backend="golden"),
        design.run(table, backend="model", memory=memory),
    )
    run = design.run(table, backend=backend, memory=memory)
    assert not run.errors and run.cycles == model.cycles >= model.bound.cycles
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
    moved = _moved(run)
    assert moved == _moved(model)
    assert moved["row_lookups"] == moved["row_hits"] + moved["rows_fetched"]
    return moved


@pytest.mark.parametrize(
    ("memory", "batch", "users"), [("latency=5,bytes=8", 4, 12), ("ddr4-2400", 10, 30)]
)
def test_factors_of_ratings(memory: str, batch: int, users: int, tmp_path: Path) -> None:
    """A few lines of users, all items: rows of two beats, fetched, changed, written back and asked for again; a batch is looked up ahead."""
    table = ratings(np.random.default_rng(1), 4 * batch + 2, users, 5)
    place = {"P": f"memory:{2 * batch}", "Q": "memory"}
    text = LRMF + f"  batch {batch}\n"  # the last of an epoch is short
    design = _compiled(text, table, {"m": users, "n": 5, "k": 3}, tmp_path, place, lanes=2)
    assert design.compiled.plan.row_unit.ahead == max(32, batch)
    moved = _equal(design, table, "pysim", memory)
    assert moved["rows_written"] > users and moved["rows_fetched"] > users + 5


@pytest.mark.parametrize(
    ("batch", "memory"), [(5, "latency=9,bytes=4"), pytest.param(4, "hbm2", marks=pytest.mark.long)]
)
def test_equal_bags_are_looked_up_once(batch: int, memory: str, tmp_path: Path) -> None:
    """Bags in runs: an index is left out where it is that of the tuple before in its batch, at the begin, in the middle and at the end of a tuple."""
    rng, count = np.random.default_rng(5), 24
    table = {name: rng.integers(0, 9, (count, 2)).astype(np.int32) for name in "cd"}
    table |= {"a": rng.integers(0, 9, count), "x": np.arange(count, dtype=np.float32) / 16}
    for name, every in (("c", 3), ("a", 4), ("d", 2)):
        table[name] = table[name][np.arange(count) // every * every]
    text = "kernel k(c: index[n, 2], a: index[n], d: index[m, 2], x: input, s: model[n], t: model[m])\n"
    text += f"  s[c] += x\n  s[a] += x\n  t[d] += sum(s[c])\n  batch {batch}\n  epochs 2\n"
    found = []
    for dedupe in (False, True):
        place, dims = dict.fromkeys("st", "memory"), {"n": 9, "m": 9}
        design = _compiled(text, table, dims, tmp_path, place, dedupe=dedupe)
        run = design.run(table, backend="model", memory=memory)
        found.append((design.run(table, backend="golden").codes, _moved(run), run.cycles))
    assert _equal(design, table, "pysim", memory) == found[1][1]
    (plain, before, slow), (same, after, fast) = found
    assert all(np.array_equal(same[name], codes) for name, codes in plain.items())
    counts = {
        name: sum(n % batch == 0 or not np.array_equal(v[n], v[n - 1]) for n in range(count))
        for name, v in table.items()
    }
    assert before["row_lookups"] == 2 * count * 5
    assert after["row_lookups"] == 2 * (2 * counts["c"] + 2 * counts["d"] + counts["a"])
    assert after["rows_fetched"] == before["rows_fetched"] and fast < slow


def test_rows_that_are_asked_for_again_stay(tmp_path: Path) -> None:
    """Rows come and go; of those that are kept, the ones that were asked for least go first."""
    first = np.repeat(np.arange(10), 4 - np.arange(10) % 2)
    asked = np.r_[first, np.tile(np.arange(10, 20), 3)].astype(np.int32)
    table = {"a": asked, "x": np.arange(len(asked), dtype=np.float32) / 8}
    text = "kernel k(a: index[n], x: input, s: model[n])\n  s[a] += x\n"
    design = _compiled(text, table, {"n": 30}, tmp_path, {"s": "memory:12"})
    [of] = design.compiled.plan.rows.tables
    assert (of.keeping, of.passing) == (10, 2)
    directory, looked = Directory(of), 0
    for n, row in enumerate(asked.tolist(), 1):
        looked = max(looked, directory.find(row, n, True).looked)
    gone = {*range(10)} - directory.where.keys()
    assert gone and gone <= {1, 3, 5, 7, 9} and looked > 20
    _equal(design, table, "pysim", "latency=3,bytes=8")


def _hottest(table: dict[str, np.ndarray], names: str, most: int) -> list[int]:
    rows, counts = np.unique(np.concatenate([table[n] for n in names]), return_counts=True)
    return rows[np.argsort(-counts, kind="stable")][:most].tolist()


def test_hot_rows(tmp_path: Path) -> None:
    """Rows that are pinned are fetched once and written back once; results are those without, and less is moved."""
    rng, names = np.random.default_rng(4), dict.fromkeys("Es", "memory:12")
    table = {name: (rng.zipf(1.6, 40) % 40).astype(np.int32) for name in "ab"}
    table["x"] = rng.uniform(-1, 1, 40).astype(np.float32)
    dims = {"n": 40, "k": 3}
    text = "kernel k(a: index[n], b: index[n], x: input, E: model[n, k], s: model[n])\n"
    text += "  E[a] += x * E[b]\n  s[b] += x + s[a]\n  init E = 0.5\n  batch 2\n"
    found = {}
    for hot in ({}, {"E": _hottest(table, "ab", 9)}):
        design = _compiled(text, table, dims, tmp_path, names, hot=hot)
        [of] = design.compiled.plan.rows.tables
        assert set(of.pinned) == {*hot.get("E", [])[:4]} and of.lines == 12
        moved = _moved(design.run(table, backend="model", memory="sdr-166"))
        found[bool(hot)] = design.run(table, backend="golden").codes, moved
        saved = AnalyticsPlan.from_json(json.loads(json.dumps(design.compiled.plan.to_json())))
        assert saved.rows.tables == design.compiled.plan.rows.tables
    assert _equal(design, table, "pysim", "sdr-166") == found[True][1]
    for name, codes in found[False][0].items():
        assert np.array_equal(found[True][0][name], codes)
    for count in ("rows_fetched", "rows_written"):
        assert found[True][1][count] < found[False][1][count]


def test_one_table_on_the_chip(tmp_path: Path) -> None:
    """Bags whose columns have rows of their own, in a table of several models; an index that is no row is an error as ever."""
    table, text = columns(np.random.default_rng(6), 11), fields(np.random.default_rng(8))
    names = dict.fromkeys("EFs", "memory")
    design = _compiled(text, table, {"k": 3}, tmp_path, names, lanes=2, bind=FIELDS)
    _equal(design, table, "pysim", "latency=9,bytes=4")
    table["c1"][7] = 3
    golden, run = (design.run(table, backend=b) for b in ("golden", "pysim"))
    assert run.errors == golden.errors and golden.errors[0].code.name == "VALUE_INDEX"


@pytest.mark.parametrize("backend", ["pysim", pytest.param("rtl", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize(("ports", "deal"), [(2, Deal()), (8, Deal(2, 2))])
def test_a_bus_error_names_the_row(
    ports: int,
    deal: Deal,
    kind: str,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows behind the last port's first 4 KiB are not there, or cannot be written: the first of them in the order of the directory is named."""
    rows, reserve, put = 1400, Windows.reserve, Windows.place
    asked = np.array([3, 300, 1030, 9, 300, 5, 1300, 8, 1, 4, 1290, 2, 1060, 6], np.int32)
    table = {"a": asked, "x": np.ones(len(asked), np.float32)}
    text = "kernel k(a: index[n], x: input, s: model[n, 3])\n  s[a] += x\n"
    made = {"part": with_channels(TWO, ports), "memory": "hbm2", "format": "float32"}
    design = _compiled(text, table, {"n": rows}, tmp_path, {"s": "memory:5"}, **made)
    plan, unit = design.compiled.plan, design.compiled.plan.row_unit
    assert plan.rows.deal == deal and unit is not None
    size, last = row_places(plan)[1] // deal.ports, row_spaces(plan)[-1]

    def place(self: Windows, at: int, data: np.ndarray, space: int = 0) -> Window | None:
        if len(data) != size or space != last:
            return put(self, at, data, space)
        put(self, at, data[:PAGE], space)
        return put(self, at + PAGE, data[PAGE:], space) if kind == "write" else None

    def less(self: Windows, at: int, n: int, space: int = 0) -> Window | None:
        return reserve(self, at, PAGE if (n, space) == (size, last) else n, space)

    def missing(row: int) -> bool:
        channel, at = deal.place(row * unit.row_bytes(0))
        return channel == deal.channels - 1 and at >= PAGE

    monkeypatch.setattr(Windows, "place", place)
    monkeypatch.setattr(Windows, "reserve", less)
    directory = Directory(design.compiled.plan.rows.tables[0])
    found = [directory.find(row, n, True).written for n, row in enumerate(asked.tolist(), 1)]
    written = [*found, *(row for lines in directory.flush() for row in lines.values())]
    order = asked.tolist() if kind == "read" else written
    row = next(filter(missing, order))
    run = design.run(table, backend=backend, memory="latency=5,bytes=4")
    [error] = run.errors
    assert error.code.name == f"BUS_{kind.upper()}" and error.block == error.item == 0
    assert error.meaning.endswith(f"answered with an error: row {row:,} of s")


def _defect(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Plant a defect in the row unit."""
    for of, part in (lookup, lookup.LookUp), (mover, mover.Mover):
        for name, method in list(vars(part).items()):
            if callable(method) and old in inspect.getsource(method):
                made: dict[str, object] = {}
                source = textwrap.dedent(inspect.getsource(method)).replace(old, new)
                exec(source, vars(of), made)
                monkeypatch.setattr(part, name, made[name])
                return
    raise ValueError(old)


#: a write-back that is dropped; lines that leave before they are changed: all, those of the batch that was closed last, those that are thought of long ago;
#: the line of the row behind it; the change of a row whose line was not noted yet. Rows that are looked up or asked for too soon: tests/proofs
DEFECTS = [
    ("dirty.eq(owner.changed &", "dirty.eq((owner.row == 1) &"),
    ("Mux(behind > 0, self.settled_before, (behind == 0) & self.settled)", "self.i.valid"),
    ("(behind == 0) & self.settled)", "behind == 0)"),
    ("Mux(self.batch - owner.batch < PAST, owner.batch, self.batch - PAST)", "self.batch - PAST"),
    ("read_line.eq(now.line)", "read_line.eq(head.line)"),
    ('owner.changed.eq(latest["changed"])', "owner.changed.eq(0)"),
]


def test_planted_defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that drops a write-back, and such as serve a row before its update."""
    table = {
        "a": np.array([0, 2, 0, 4, 0, 1, 2, 5, 6, 7, 0, 3, 1, 4, 0], np.int32),
        "b": np.array([1, 3, 0, 4, 0, 3, 2, 3, 0, 4, 6, 0, 5, 2, 1], np.int32),
        "x": np.arange(1, 16, dtype=np.float32) / 16,
    }
    text = "kernel k(a: index[n], b: index[n], x: input, s: model[n])\n  s[a] += x + s[b]\n"
    design = _compiled(text, table, {"n": 8}, tmp_path, {"s": "memory:4"})
    _equal(design, table, "pysim", "latency=5,bytes=8")
    golden = design.run(table, backend="golden")
    for old, new in DEFECTS:
        with monkeypatch.context() as patched:
            _defect(patched, old, new)
            wrong = design.run(table, backend="pysim", memory="latency=99,bytes=8")
        assert not np.array_equal(wrong.codes["s"], golden.codes["s"]), (old, new)


@pytest.mark.parametrize(("pinned", "keeping"), [((), 0), ((0, 3, 7, 40), 0), ((0, 3), 40)])
def test_directory(pinned: tuple[int, ...], keeping: int) -> None:
    """Each row has a line of its own; a batch's lines stay; what was changed is written back once."""
    rng, rows, lines = np.random.default_rng(2), 50 + 3 * keeping, 24 + keeping + len(pinned)
    memory, held, sums = np.zeros(rows, int), np.zeros(lines, int), np.zeros(rows, int)
    directory = Directory(RowTable(("E",), (1,), rows, lines, pinned, keeping))
    fetched: list[int] = []
    for batch in range(400):
        mine: dict[int, int] = {}
        for row in (rng.integers(0, rows, 12) // rng.integers(1, 4, 12)).tolist():
            found = directory.find(row, batch, row % 3 > 0)
            if found.written >= 0:
                memory[found.written] = held[found.line]
            if not found.hit:
                held[found.line] = memory[row]
                fetched.append(row)
            assert mine.setdefault(row, found.line) == found.line == directory.where[row]
            if row % 3:
                held[found.line] += 1
                sums[row] += 1
            assert held[found.line] == sums[row]
        assert len({*mine.values()}) == len(mine)
    assert all(fetched.count(row) == 1 for row in pinned) and len(fetched) > 400
    assert all(directory.where[row] >= 24 + keeping for row in pinned)
    for region in directory.flush():
        for line, row in region.items():
            if row >= 0:
                memory[row] = held[line]
    assert np.array_equal(memory, sums)


def test_a_store_of_no_lines(tmp_path: Path) -> None:
    """No line is held for longer than two batches need it; results are those of the whole model on the chip."""
    table = ratings(np.random.default_rng(3), 14, 9, 9)
    dims, text = {"m": 9, "n": 9, "k": 3}, LRMF + "  batch 2\n"
    found = _compiled(text, table, dims, tmp_path, {"P": "memory:0", "Q": "memory:9"})
    assert [of.lines for of in found.compiled.plan.rows.tables] == [4, 9]
    moved = _equal(found, table, "pysim", "latency=9,bytes=4")
    assert moved["rows_fetched"] > 2 * 9
    chip = ps.compile(tmp_path / "k.psk", TWO, table, "fixed:8,8", dims=dims).run(table)
    for name, codes in chip.codes.items():
        assert np.array_equal(found.run(table, backend="golden").codes[name], codes)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("  s[(i + 1) % 20] += x", "memory", "which row of s it is, is computed"),
        ("  s[i] += x * sum(E[i])\n  E <- E + x", "memory", "E is read whole"),
        ("  s[i] += x", "memory:-1", "'memory:-1' is no place"),
        ("  s[i] += x", "shelf", "'shelf' is no place of a model"),
        (
            "  s[i] += x + s[j]",
            "memory:1",
            "two batches of 1 may ask for 4 rows of s, and 1 are held",
        ),
    ],
)
def test_what_stays_on_the_chip(text: str, place: str, reason: str, tmp_path: Path) -> None:
    header = "kernel k(i: index[n], j: index[n], x: input, s: model[n], E: model[n, 2])\n"
    kept = "" if "E <-" in text else "\n  E <- E"
    table = {"i": np.arange(9), "j": np.arange(9), "x": np.ones(9)}
    dims = {"n": 20}
    with pytest.raises(KernelError, match=re.escape(reason)):
        names = {"s": place} if kept else {"E": place}
        _compiled(header + text + kept + "\n", table, dims, tmp_path, names)


def test_kernels_without_rows_have_no_places(tmp_path: Path) -> None:
    (tmp_path / "k.psk").write_text("kernel k(x: input, w: model)\n  w <- w + merge(x, 2)\n")
    for choices in (ps.Choices(place={"w": "memory"}), ps.Choices(dedupe=True)):
        with pytest.raises(KernelError, match="k reads and changes no rows by an index") as caught:
            ps.compile(tmp_path / "k.psk", choices=choices)
        assert caught.value.diagnostic.code == "E605"
    with pytest.raises(KernelError, match="k has no model v"):
        ps.compile(tmp_path / "k.psk", choices=ps.Choices(place={"v": "memory"}))


def test_what_is_too_large_is_named(tmp_path: Path) -> None:
    text = (
        "kernel k(i: index[n], x: input, E: model[n, 9], s: model[n])\n  E[i] += x\n  s[i] += x\n"
    )
    (tmp_path / "k.psk").write_text(text)
    design = ps.compile(tmp_path / "k.psk", "small", dims={"n": 40_000})
    assert "take 12,800,000 bits, E alone 11,520,000" in str(design.compiled.refused)


@pytest.mark.parametrize(("part", "fits"), [("ulx3s-85f-sdram", True), ("ulx3s-85f", False)])
def test_boards(part: str, fits: bool) -> None:
    """Where a board's SDRAM is shared in turn, rows lie there; block RAM is no memory for what does not fit into block RAM."""
    dims, example = {"m": 10_000, "n": 10_000, "k": 4}, Path(__file__).parents[2] / "examples"
    design = ps.compile(example / "lrmf.psk", part, format="fixed:8,16", dims=dims)
    assert (design.compiled.refused is None) == bool(design.compiled.plan.rows.tables) == fits


@pytest.mark.parametrize(
    ("rows", "stride", "where", "part"),
    [
        (30, 50, True, "u55c"),
        (100, 15, True, "u55c"),
        (3_000, 7, False, "u55c"),
        (300, 5, True, "ulx3s-85f-sdram"),
    ],
)
def test_where_models_lie(rows: int, stride: int, where: bool, part: str, tmp_path: Path) -> None:
    """On the chip models are loaded and written back whole: they lie in memory where this takes longer than fetching what a run asks for."""
    text = "kernel k(a: index[n], x: input, E: model[n, 4])\n  E[a] += x * E[a]\n  batch 4\n"
    (tmp_path / "k.psk").write_text(text)
    table = {"a": np.arange(rows, dtype=np.int32) * stride % 1500, "x": np.ones(rows, np.float32)}
    found, lies = {}, {}
    for place in ({}, {"E": "chip"}, {"E": "memory"}):
        more = {"dims": {"n": 1500}, "choices": ps.Choices(place=place)}
        design = ps.compile(tmp_path / "k.psk", part, table, "fixed:8,8", **more)
        key = place.get("E", "")
        found[key] = design.run(table, backend="model").cycles
        lies[key] = bool(design.compiled.plan.rows.tables)
    assert lies == {"": where, "chip": False, "memory": True}
    assert found[""] == min(found.values()) < max(found.values())


def test_where_models_lie_without_a_count(tmp_path: Path) -> None:
    """There may be many rows: they lie on the chip, and no plan in memory is tried."""
    text = "kernel k(a: index[n], x: input, E: model[n, 4])\n  E[a] += x * E[a]\n  batch 4\n"
    (tmp_path / "k.psk").write_text(text)
    found = ps.compile(tmp_path / "k.psk", "u55c", dims={"n": 1500}, format="fixed:8,8").compiled
    tried = Mock(side_effect=AssertionError)
    assert not quicker(found, Given(), tried) and not tried.called
    with pytest.raises(AssertionError):
        quicker(found, Given(rows=10), tried)


def test_where_models_lie_on_a_full_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fills the part has a slower clock, and the same cycles take longer."""
    text = "kernel k(a: index[n], x: input, E: model[n, 4])\n  E[a] += x * E[a]\n  batch 4\n"
    (tmp_path / "k.psk").write_text(text)
    chip, memory = (
        ps.compile(
            tmp_path / "k.psk",
            "u55c",
            dims={"n": 1500},
            format="fixed:8,8",
            choices=ps.Choices(place={"E": place}),
        ).compiled
        for place in ("chip", "memory")
    )
    found = [quicker(chip, Given(rows=10_000), lambda: memory)]
    full = max(chip.resources.shares(chip.target).values())
    told = lambda share, part: 4.0 if share == full else 1.0
    monkeypatch.setattr("penstock.engines.analytics.placement.slower", told)
    found.append(quicker(chip, Given(rows=10_000), lambda: memory))
    assert found == [False, True]


def test_lanes(tmp_path: Path) -> None:
    """Plans are compared by what rows in memory take, not by the operations alone, which two lanes keep up with here."""
    (tmp_path / "k.psk").write_text(LRMF + "  batch 64\n")
    found, dims = [], {"m": 2629, "n": 2629, "k": 20}
    for lanes in (None, 32):
        choices = ps.Choices(lanes=lanes, place=dict.fromkeys("PQ", "memory"))
        part = "ulx3s-85f-sdram"
        design = ps.compile(tmp_path / "k.psk", part, None, "bfloat16", dims=dims, choices=choices)
        rows = design.compiled.workload(Given(rows=1000))
        found.append(rows.model(design.compiled.memory).total)
    assert found[0] <= 1.03 * found[1]


@pytest.mark.long
@pytest.mark.parametrize("number", range(100))
def test_drawn(number: int, tmp_path: Path) -> None:
    """Random kernels, all their models in memory, from the fewest lines to all rows; every memory."""
    rng = np.random.default_rng(500 + number)
    rows, n, bind = int(rng.integers(1, 90)), int(rng.integers(1, 150)), None
    backend = "rtl" if number % 8 else "pysim"
    rows = rows if number % 8 else min(rows, 15)
    kernel = (one_tuple, batched, fields)[number % 3](rng) + f"  epochs {1 + number // 3 % 3}\n"
    if number % 3 < 2:
        table = {name: rng.integers(0, n, rows).astype(np.int32) for name in "ab"}
        table["x"] = rng.uniform(-2, 2, rows).astype(np.float32)
    elif number % 2:
        table, bind = columns(rng, rows), FIELDS
    else:
        table = arrays(rng, rows, n)
    dims = {"k": int(rng.integers(2, 11))} | ({} if bind else {"n": n})
    found = re.search(r"batch (\d+)", kernel)
    places = 7 if "fields" in kernel else 2
    least = 2 * places * (int(found[1]) if found else 1)
    lines = int(rng.integers(least, least + 8)) + (number % 4 < 2) * (least + 2)
    names = [name for name in "EFs" if f"{name}[" in kernel]
    format = ["fixed:8,16", "float32", "fixed:4,8", "bfloat16"][number % 4]
    lanes = [None, 1, 2][number % 3]
    hot = {} if number % 5 % 2 else {names[0]: [*range(rng.integers(0, 2), 9)]}
    hot = {} if bind else {n: [row for row in v if row < dims["n"]] for n, v in hot.items()}
    place = dict.fromkeys(names, f"memory:{lines}")
    more = {"lanes": lanes, "bind": bind, "hot": hot, "dedupe": number % 7 < 3}
    for name in "abcd" if number % 7 < 3 else ():  # runs of equal ones
        if name in table:
            table[name] = table[name][np.arange(rows) // 3 * 3]
    memory, part = MEMORIES[number % 5], with_channels(TWO, (2, 5, 8)[number // 5 % 3])
    more |= {"part": part, "memory": memory}
    design = _compiled(kernel, table, dims, tmp_path, place, format, **more)
    _equal(design, table, backend, memory)


@pytest.mark.parametrize("option", ["place", "dedupe"])
def test_rows_in_memory_need_a_port(option: str) -> None:
    """The message names the option that asks for them."""
    kernel = from_text("kernel k(i: index[3], s: model[3])\n  s[i] += 1\n")
    table = {"i": np.arange(3)}
    said = {"place": {"s": "memory"}, "dedupe": True}[option]
    with pytest.raises(KernelError) as caught:
        ps.compile(kernel, "small", table, choices=ps.Choices(**{option: said}))
    found = caught.value.diagnostic
    assert found.code == "E605" and "small has one port in all" in found.message
    assert found.span.file == f"--{option}" and found.hint.startswith(f"leave --{option} out")
