"""Tables of rows: how many clocks a row at random takes of DRAM, and how often the store of hot rows has it.

    python benchmarks/rows.py clocks [--rows N]      # seconds
    python benchmarks/rows.py hits [--lookups N]     # minutes
    python benchmarks/rows.py zipf [--lookups N]     # a minute: hits and bytes of the hardware's lines, without a profile and with one
    python benchmarks/rows.py options [--bags N]     # minutes: bytes and cycles with --hot and --dedupe
    python benchmarks/rows.py overlap [--rows N]     # seconds: what reads beside the changes of the batch before would gain
    python benchmarks/rows.py turns [--rows N]       # seconds: cycles a change where the next tuple is chosen from several
    python benchmarks/rows.py planner [--seeds N]    # an hour: the planner beside forced lanes and places, on drawn kernels
    python benchmarks/rows.py area                   # minutes: estimates of the row unit and its ports beside synthesis

The first two are of the specification in `models/rows`; the hardware has the lines of `models/rows/unit.py`. Indices are drawn with seed 1.
benchmarks/history/rows.md has the figures.
"""

from __future__ import annotations

import argparse
import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from area import cells, luts
from common import markdown

from penstock import Choices, compile
from penstock.api import load_kernel
from penstock.dsl.analytics.in_memory import divided
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.hdl.memory import AXI4, Dealt, Joined
from penstock.hdl.rows.unit import RowUnit
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.resources import parts
from penstock.models.analytics.shell import address_bits, beats_bits
from penstock.models.memory.dram.presets import preset
from penstock.models.memory.dram.timing import Timing
from penstock.models.numerics.latency import Cost
from penstock.models.rows.unit import Directory, RowTable
from penstock.sim.memory.dram import serve
from testbench.kernels.by_index import batched, computed, one_tuple
from testbench.row_requests import Placement, least_clocks, ordered_bursts
from testbench.row_store import Policy, StoreConfig

EXAMPLES = Path(__file__).parents[1] / "examples"
WINDOWS = (8, 16, 32, 64)
TABLE = 1_000_000
#: of `lrmf` in float32 on u55c
GAP, LATE = 6, 45


def clocks(count: int) -> str:
    rows = []
    for name in ("sdr-166", "ddr4-2400", "hbm2-2000"):
        for size in (64, 256):
            timing = preset(name)
            placement = Placement(timing, size)
            most = timing.organisation.pseudo_bytes // size
            drawn = np.random.default_rng(1).integers(0, most, count).tolist()
            plain = [
                r * size // timing.burst_bytes + n for r in drawn for n in range(placement.bursts)
            ]
            orders = [plain, *(list(ordered_bursts(placement, drawn, w)) for w in WINDOWS)]
            found = [_served(timing, bursts) / count for bursts in orders]
            bound = float(least_clocks(timing, size))
            rows.append([name, str(size), *(f"{c:.1f}" for c in found), f"{bound:.1f}"])
    windows = " | ".join(f"window {w}" for w in WINDOWS)
    head = f"DRAM | bytes | as they come | {windows} | bound"
    return markdown(head, rows)


def planner(seeds: Iterable[int]) -> str:
    """Return of drawn kernels the planner's cycles beside the fewest with forced lanes and places; a kernel with rows has one thread.

    Choices that fill more of a part than the planner's are left out, as far as these keep to the 80 % that it aims at (`--fill`).
    The model has a port of its own for rows in memory. Where it finds a choice over 3 % better for a board, which has one for all, the whole board in
    simulation judges both (`board`).
    """
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows, n, k = (int(rng.integers(*ends)) for ends in ((50, 2_000), (3, 2_000), (1, 17)))
        kernel = (one_tuple, batched, computed)[seed % 3](rng)
        fmt = ("float32", "fixed:8,8", "bfloat16")[seed // 3 % 3]
        part = ("u55c", "ulx3s-85f-sdram", "small")[seed // 9 % 3]
        table = {name: rng.integers(0, n, rows).astype(np.int32) for name in "ab"}
        table["x"] = rng.uniform(-2, 2, rows).astype(np.float32)
        taken = {}
        places = [dict.fromkeys("EFs", where) for where in ("chip", "memory")]
        for lanes, place in [*product((None, 1, 2, 4, 8, 16), [{}]), *product([None], places)]:
            try:
                choices = Choices(lanes=lanes, place=place)
                made = compile(
                    from_text(kernel), part, table, fmt, dims={"n": n, "k": k}, choices=choices
                )
            except KernelError:
                continue
            if made.compiled.refused is None:
                run = made.run(table, backend="model")
                taken[lanes, place.get("E", "")] = run.cycles, made
        if (None, "") not in taken:
            continue
        most = max(_share(taken[None, ""][1]), Choices().fill)
        best = min((p for p in taken.values() if _share(p[1]) <= most), key=lambda p: p[0])
        judge, pair = "model", [taken[None, ""], best]
        if part.startswith("ulx3s") and pair[0][0] > 1.03 * best[0]:
            judge, pair = "board", [(made.run(table, "board").cycles, made) for _, made in pair]
        [ours, least], said = [cycles for cycles, _ in pair], [_said(made) for _, made in pair]
        figures = said[0], ours, said[1], least, f"{ours / least:.3f}", judge
        found.append([seed, part, fmt, n, k, rows, *figures])
        print(*found[-1], flush=True)
    over = sum(float(row[-2]) > 1.03 for row in found)
    head = "seed | target | format | n | k | tuples | planner's lanes, place | cycles | best | cycles | ÷ | judge"
    return f"{markdown(head, found)}\n\n{over} of {len(found)} kernels over 1.03"


def _share(made: Any) -> float:
    return max(made.resources.shares(made.target).values())


def _said(made: Any) -> str:
    return f"{made.compiled.plan.lanes}, {'memory' if made.compiled.plan.rows.tables else 'chip'}"


def overlap(count: int) -> str:
    """Return cycles a rating of Netflix's and S/N's sizes in batches of 256, in four orders of reads and changes: a read and a change of each model a cycle."""
    found = []
    for users, items in ((6_040, 3_952), (19_880, 19_880)):
        for law in ("Zipf 0.99", "uniform"):
            draw = _zipf if law != "uniform" else lambda rng, n, many: rng.integers(0, n, many)
            rng = np.random.default_rng(1)
            rows = [draw(rng, users, count), users + draw(rng, items, count)]
            asked = np.stack(rows, axis=1).reshape(-1, 256, 2).tolist()
            orders = (
                (False, False, False),
                (True, False, False),
                (True, True, False),
                (True, True, True),
            )
            said = [f"{_ordered(asked, *order) / count:.2f}" for order in orders]
            found.append([f"{users:,} × {items:,}", law, *said])
    head = "rows | drawn | reads behind all changes | beside them, in order | in any order | and changes behind their rows' reads alone"
    return markdown(head, found)


def _ordered(asked: list[list[list[int]]], beside: bool, free: bool, apart: bool) -> int:
    """Return the cycle of the last change.

    From a change of a row it is `GAP` cycles to what follows of that row, from a read `LATE` to its change. Reads lie `beside` the changes of the batch
    before and wait for those of their own rows, in any order where they are `free`. Changes begin behind all reads of their batch, or (`apart`) behind
    those of their rows.
    """
    read = changed = -1
    done: dict[int, int] = {}
    for batch in asked:
        waits = [
            max(done.get(row, 0) for row in rows) if beside else changed + GAP for rows in batch
        ]
        ready, last = [0] * len(batch), dict[int, int]()
        for n in sorted(range(len(batch)), key=waits.__getitem__) if free else range(len(batch)):
            read = max(read + 1, waits[n])
            ready[n] = read + LATE
            last |= dict.fromkeys(batch[n], read + LATE)
        done = {}
        for n, rows in enumerate(batch):
            begin = max(ready[n], *(last[row] for row in rows)) if apart else read + LATE
            changed = max(changed + 1, begin, *(done.get(row, 0) for row in rows))
            done |= dict.fromkeys(rows, changed + GAP)
    return changed


def _served(timing: Timing, bursts: list[int]) -> int:
    places = np.array(bursts, np.uint64)
    none = np.zeros(len(places))
    return int(serve(timing, none.astype(bool), none, places)[0][-1])


def hits(count: int) -> str:
    """Hit rates of the last two fifths of the lookups."""
    shares = np.cumsum(np.arange(1, TABLE + 1) ** -0.99)
    rng = np.random.default_rng(1)
    drawn = rng.permutation(TABLE)[np.searchsorted(shares, rng.random(count) * shares[-1])].tolist()
    warm, rows = 3 * count // 5, []
    for lines in (1 << 14, 1 << 15, 1 << 16):
        policy, recent, found, lru = Policy(StoreConfig(lines)), OrderedDict(), 0, 0
        for n, row in enumerate(drawn):
            found += policy.access(row).hit and n >= warm
            lru += row in recent and n >= warm
            recent[row] = None
            recent.move_to_end(row)
            if len(recent) > lines:
                recent.popitem(last=False)
        best = shares[lines - 1] / shares[-1]
        rates = (found / (count - warm), lru / (count - warm), best)
        rows.append([f"{lines:,}", f"{lines / TABLE:.1%}", *(f"{rate:.3f}" for rate in rates)])
    return markdown(
        ["lines", "of the rows", "store", "least recently used", "best fixed set"], rows
    )


def _zipf(
    rng: np.random.Generator, rows: int, count: int, names: np.ndarray | None = None
) -> np.ndarray:
    """Return rows drawn by Zipf's law; `names`: which is the hottest, the second, …, drawn as well without."""
    shares = np.cumsum(np.arange(1, rows + 1) ** -0.99)
    drawn = np.searchsorted(shares, rng.random(count) * shares[-1])
    return (rng.permutation(rows) if names is None else names)[drawn].astype(np.int32)


def zipf(count: int) -> str:
    """Hits and bytes of the row unit's lines, 1/32 of the rows, batches of 256, a row of 64 bytes a lookup, all of them changed.

    The profile is that of another draw, as of the day before. The lines start empty; bytes are those of the last two fifths of the lookups.
    """
    names = np.random.default_rng(1).permutation(TABLE)
    today, before = (_zipf(np.random.default_rng(s), TABLE, count, names) for s in (2, 3))
    lines, shares = TABLE // 32, np.cumsum(np.arange(1, TABLE + 1) ** -0.99)
    best, warm = shares[lines - 1] / shares[-1], 3 * count // 5
    found, counts = np.unique(before, return_counts=True)
    hot = found[np.argsort(-counts, kind="stable")].tolist()
    rows = []
    for name, pinned in (("without a profile", {}), ("--hot", {"E": hot})):
        directory = Directory(divided(RowTable(("E",), (16,), TABLE, lines), pinned, 512))
        for n, row in enumerate(today.tolist()):
            if n == warm:
                early = replace(directory.counts)
            directory.find(row, 1 + n // 256, True)
        late = {k: v - getattr(early, k) for k, v in vars(directory.counts).items()}
        rate = late["hits"] / late["lookups"]
        times = 2 * late["lookups"] / (late["fetched"] + late["written"])
        all_of_them = directory.counts.hits / count
        said = [f"{all_of_them:.3f}", f"{rate:.3f}", f"{rate / best:.3f}", f"{times:.2f}"]
        rows.append([name, *said])
    rows.append(["best fixed set", "", f"{best:.3f}", "1.000", f"{1 / (1 - best):.2f}"])
    head = "lines | held | of the last two fifths | ÷ best fixed set"
    return markdown(f"{head} | times fewer bytes than without lines", rows)


BAGS = {
    "read": """kernel bags(c: index[n, 8], y: output, E: model[n, 16], w: model[16], rate: meta = 0.05)
  v = sum(E[c], axis=0)
  error = sum(v * w) - y
  w <- w - rate * merge(error * v, 64)
  E <- E
  init E = uniform(-0.1, 0.1, seed=1)
""",
    "changed": """kernel bags(c: index[n, 8], y: output, E: model[n, 16], rate: meta = 0.05)
  error = sum(sum(E[c], axis=0)) - y
  E[c] += -rate * error * E[c]
  init E = uniform(-0.1, 0.1, seed=1)
  batch 64
""",
}


def options(count: int) -> str:
    """Cycles and bytes of bags of 8 rows of 100,000 under Zipf 0.99, of which 2,048 are held; each bag comes 1 to 7 times, one behind the other."""
    rng, rows = np.random.default_rng(1), 100_000
    times = rng.integers(1, 8, count)
    bags = _zipf(rng, rows, 8 * count).reshape(count, 8)
    bags = bags.repeat(times, axis=0)[:count]
    table = {"c": bags, "y": rng.uniform(-1, 1, count).astype(np.float32)}
    found, counts = np.unique(bags, return_counts=True)
    hot = {"E": found[np.argsort(-counts, kind="stable")].tolist()}
    said, first = [], None
    ways = ("", {}), ("--hot", {"hot": hot}), ("--dedupe", {"dedupe": True})
    both = ("both", {"hot": hot, "dedupe": True})
    for kernel, (name, more) in product(BAGS, (*ways, both)):
        choices = Choices(place={"E": "memory:2048"}, **more)
        design = compile(from_text(BAGS[kernel]), "u55c", table, dims={"n": rows}, choices=choices)
        run = design.run(table, backend="model", memory="hbm2")
        counted = run.counters
        moved = 64 * (counted["rows_fetched"] + counted["rows_written"])
        first = first if more and first else (moved, run.cycles)
        cells = [f"{counted['row_lookups']:,}", f"{moved / 1e6:.2f}", f"{first[0] / moved:.2f}"]
        cells += [f"{run.cycles / count:.1f}", f"{first[1] / run.cycles:.2f}", run.bound.by]
        said.append([kernel, name, *cells, f"{run.cycles / run.bound.cycles:.2f}"])
    head = "rows are | options | lookups | MB moved | times fewer | cycles a tuple"
    return markdown(f"{head} | times fewer | binds | ÷ bound", said)


def rest(count: int) -> str:
    """Drawn ratings of rank 4 with noise by 600 users under Zipf 0.5 of 400 items, learned at rank 10 in float32 over 20 epochs: what `freeze` leaves out,
    and the error of the ratings beside that of the full run."""
    rng = np.random.default_rng(1)
    users, items = 600, 400
    share = np.arange(1, items + 1) ** -0.5
    table = {"u": rng.integers(0, users, count).astype(np.int32)}
    table["i"] = rng.choice(items, count, p=share / share.sum()).astype(np.int32)
    left, right = (rng.normal(0, 0.5, (n, 4)) for n in (users, items))
    true = np.einsum("nk,nk->n", left[table["u"]], right[table["i"]])
    table["r"] = (true + rng.normal(0, 0.05, count)).astype(np.float32)
    text = (Path(__file__).parents[1] / "examples" / "lrmf.psk").read_text()
    kernel = from_text(text.replace("batch 16", "batch 64"))
    dims = {"m": users, "n": items, "k": 10}
    design = compile(kernel, "u55c", table, dims=dims)
    rows, full = [], None
    for freeze in (None, (0.005, 1), (0.02, 2), (0.02, 1), (0.05, 2)):
        run, model = (design.run(table, backend=b, freeze=freeze) for b in ("golden", "model"))
        P, Q = (run.values[name] for name in "PQ")
        error = np.einsum("nk,nk->n", P[table["u"]], Q[table["i"]]) - table["r"]
        full = full or (run.counters["tuples"], model.cycles, (P, Q))
        away = max(abs(a - b).max() for a, b in zip((P, Q), full[2], strict=True))
        said = ["" if freeze is None else f"{freeze[0]:g},{freeze[1]}"]
        said += [f"{run.counters['tuples']:,}", f"{full[0] / run.counters['tuples']:.2f}"]
        said += [f"{full[1] / model.cycles:.2f}", f"{np.sqrt((error**2).mean()):.4f}"]
        rows.append([*said, f"{away:.3f}"])
    head = ["--freeze", "tuples", "times fewer", "times fewer cycles", "error of a rating"]
    return markdown([*head, "farthest from the full run"], rows)


def turns(count: int) -> str:
    """Return cycles a change of batches of 256: the first of so many tuples goes on whose rows no change of the last `GAP` cycles has."""
    rng, found, windows = np.random.default_rng(1), [], (1, 2, 3, 4, 8, 16)
    for m, n in ((6_040, 3_952), (19_880, 19_880), (28_002, 45_064)):
        pairs = list(zip(_zipf(rng, m, count).tolist(), _zipf(rng, n, count).tolist(), strict=True))
        batches = [pairs[k : k + 256] for k in range(0, count, 256)]
        taken = [sum(_turns(b, w) for b in batches) / count for w in windows]
        found.append([f"{m:,} × {n:,}", *(f"{t:.2f}" for t in taken)])
    return markdown(["rows", *map(str, windows)], found)


def _turns(pairs: list[tuple[int, int]], window: int) -> int:
    """Return the cycles of a batch's changes."""
    waiting, cycle = list(pairs), 0
    free = [dict[int, int](), dict[int, int]()]  # from when on a row is, of each model
    while waiting:
        passed = [set[int](), set[int]()]
        for n, rows in enumerate(waiting[:window]):
            sides = list(zip(rows, free, passed, strict=True))
            if all(f.get(row, 0) <= cycle and row not in p for row, f, p in sides):
                for row, f, _ in sides:
                    f[row] = cycle + GAP
                del waiting[n]
                break
            for row, _, p in sides:
                p.add(row)
        cycle += 1
    return cycle


class _Ports(Component):
    """What gives a row unit its memory ports (`hdl.analytics.engine`)."""

    def __init__(self, plan: AnalyticsPlan) -> None:
        self.plan, self.opened = plan, 2 * plan.row_unit.commands
        width, joined = address_bits(plan), plan.bus_bytes * plan.rows.deal.joined
        self.bus = AXI4(address_width=width, data_bytes=joined)
        narrow = AXI4(address_width=width, data_bytes=plan.bus_bytes)
        ports = {f"m{k}": Out(narrow) for k in range(plan.rows.deal.ports)}
        super().__init__({"master": In(self.bus), **ports})

    def elaborate(self, platform: Any) -> Module:
        m, plan = Module(), self.plan
        channels: list[Any] = [flipped(self.master)]
        if plan.rows.deal.channels > 1:
            m.submodules.dealt = dealt = Dealt(self.bus, plan.rows.deal.channels, self.opened)
            connect(m, channels[0], dealt.master)
            channels = [getattr(dealt, f"bus{k}") for k in range(plan.rows.deal.channels)]
        if plan.rows.deal.joined > 1:
            narrow = []
            for k, channel in enumerate(channels):
                m.submodules[f"joined{k}"] = joined = Joined(self.bus, plan.rows.deal.joined)
                connect(m, channel, joined.master)
                narrow += [getattr(joined, f"bus{n}") for n in range(plan.rows.deal.joined)]
            channels = narrow
        for k, channel in enumerate(channels):
            connect(m, channel, flipped(getattr(self, f"m{k}")))
        return m


#: example, target, format, dimensions
AREAS = (
    ("lrmf", "ulx3s-85f-sdram", "fixed:8,16", {"m": 10_000, "n": 10_000, "k": 4}),
    ("lrmf", "u55c", "float32", {"m": 20_000, "n": 20_000, "k": 10}),
    ("group_by", "u55c", "fixed:24,8", {"n": 20_000}),
    ("embedding_bags", "u55c", "float32", {"n": 20_000, "d": 13, "k": 16}),
)


def area(designs: Iterable[Any]) -> str:
    """Look-up tables and flip-flops of row units and of their memory ports, and what Yosys makes of these parts alone for an ECP5."""
    rows = []
    for name, target, form, dims in designs:
        path = EXAMPLES / f"{name}.psk"
        models = load_kernel(path).of_kind("model")
        places = {model.name: "memory:2048" for model in models if model.dims[0] in ("m", "n")}
        design = compile(path, target, "random:rows=1000", form, dims=dims, place=places)
        plan, unit = design.compiled.plan, design.compiled.plan.row_unit
        sizes = {"address_width": address_bits(plan), "beats_width": beats_bits(plan)}
        found = [("row unit", unit.cost, RowUnit(unit, **sizes))]
        if plan.rows.deal.ports > 1:
            both = parts(plan, design.target)["rows"]
            ports = Cost(both.lut - unit.cost.lut, both.ff - unit.cost.ff)
            found.append(
                (f"{plan.rows.deal.channels} × {plan.rows.deal.joined} ports", ports, _Ports(plan))
            )
        for what, ours, component in found:
            made = cells(component, "ecp5")
            said = [f"{name}, {target}", what]
            for mine, theirs in ((ours.lut, luts(made)), (ours.ff, made["TRELLIS_FF"])):
                said += [f"{mine:,}", f"{theirs:,}", f"{mine / theirs:.2f}"]
            print(*said, file=sys.stderr, flush=True)
            rows.append([*said, str(made["DP16KD"])])
    return markdown("rows of | part | LUT | Yosys | ratio | FF | Yosys | ratio | block RAMs", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "what",
        choices=[
            "clocks",
            "hits",
            "zipf",
            "options",
            "overlap",
            "turns",
            "planner",
            "rest",
            "area",
        ],
    )
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--lookups", type=int, default=2_500_000)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--bags", type=int, default=20_000)
    given = parser.parse_args()
    run = {"clocks": (clocks, given.rows), "hits": (hits, given.lookups)}
    run |= {"zipf": (zipf, given.lookups), "options": (options, given.bags)}
    run |= {"area": (area, AREAS), "turns": (turns, given.rows - given.rows % 256)}
    run |= {"overlap": (overlap, given.rows - given.rows % 256)}
    run |= {"rest": (rest, given.rows), "planner": (planner, range(given.seeds))}
    of, count = run[given.what]
    print(of(count))


if __name__ == "__main__":
    main()
