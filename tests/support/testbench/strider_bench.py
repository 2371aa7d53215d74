"""An `AccessPort` under Verilator, alone or behind sequencer and reader: beats out with backpressure, every cycle noted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from penstock.hdl.memory.reader import BurstReader
from penstock.hdl.shell.verilog import to_verilog
from penstock.hdl.strider.port import AccessPort
from penstock.hdl.strider.sequencer import PageSequencer
from penstock.models.errors import HardwareError
from penstock.models.memory.timing import FixedLatency
from penstock.models.shell import TOP, RegisterMap
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.costs import analyse
from penstock.models.strider.cycles import Collector, PortModel
from penstock.models.strider.errors import PageError
from penstock.models.strider.isa import Instruction, encode
from penstock.models.strider.program import generate
from penstock.models.strider.table import walk_table

from .vectors import library

__all__ = ["Outcome", "check_port", "run_port"]

#: the codes that a Strider may end with
_ERRORS = RegisterMap(errors=(PageError,))

_HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdint>
#include <deque>
#include <utility>
double sc_time_stamp() {{ return 0; }}
struct Run {{
    const uint32_t *words; const uint32_t *program; const uint8_t *offer; const uint8_t *ready;
    uint64_t pages, epochs, page_words, program_words, offers, readies, limit, credits, first_block, block_stride, room, latency, interval;
    uint64_t *arrivals, *frees, *cycles; uint32_t *flags, *codes; uint64_t *status;
}};
extern "C" __attribute__((visibility("default"))) uint64_t run(Run *r) {{
    VerilatedContext context;
    Vtop top(&context);
    top.clk = 0; top.rst = 0; top.program_write = 0; top.ready = 0; top.flush = 0; top.eval();
    auto tick = [&] {{ top.clk = 1; top.eval(); top.clk = 0; top.eval(); }};
    top.flush = 1; tick(); top.flush = 0;
    for (uint64_t k = 0; k < r->program_words; k++) {{ top.program_write = 1; top.program_word = r->program[k]; top.eval(); tick(); }}
    std::deque<std::pair<uint64_t, uint64_t>> bursts;   // latency over at, first word of what is left
    std::deque<uint64_t> lengths;
    uint64_t next = 0;
    top.program_write = 0; top.pages = r->pages; top.first_block = r->first_block; top.block_stride = r->block_stride;
    uint64_t page = 0, word = 0, total = r->pages * r->epochs, credit = r->credits, freed = 0, count = 0, ends = 0, after = 0, t = 0;
    for (; t < r->limit && after < 64; t++) {{
        bool give = !r->latency && page < total && (word || credit) && r->offer[t % r->offers];
        top.start = r->latency && t == 0; top.epochs = r->epochs; top.alone = !r->latency;
        top.write = give;
        top.rvalid = !bursts.empty() && t >= bursts.front().first && t >= next;
        if (give || top.rvalid) {{
            const uint32_t *w = r->words + (give ? (page % r->pages) * r->page_words + word : bursts.front().second) * {words};
            {drive}
            if (give && !word) credit--;
        }}
        top.ready = r->ready[t % r->readies];
        top.eval();
        if (top.rvalid && top.rready) {{
            give = true; next = t + r->interval; bursts.front().second++;
            if (!--lengths.front()) {{ bursts.pop_front(); lengths.pop_front(); }}
        }}
        if (top.arvalid) {{ bursts.push_back({{t + r->latency, top.araddr / (4 * {words})}}); lengths.push_back(top.arlen + 1); }}
        if (give && ++word == r->page_words) {{ word = 0; r->arrivals[page++] = t; }}
        if (top.free && freed < total) {{ r->frees[freed++] = t; credit++; }}
        if (top.valid && top.ready && count < r->room) {{
            r->cycles[count] = t; r->flags[count] = top.last | top.ends << 1;
            {collect}
            count++;
            if (top.ends) ends++;
        }}
        if (top.error_valid && !r->status[0]) {{
            r->status[0] = 1; r->status[1] = top.error_code; r->status[2] = top.error_block; r->status[3] = top.error_line; r->status[4] = t;
            r->status[11] = top.error_item;
        }}
        if (top.error_valid || ends == r->epochs) after++;
        tick();
    }}
    r->status[5] = top.tuples; r->status[6] = top.skipped; r->status[7] = top.stalls; r->status[8] = t; r->status[9] = ends; r->status[10] = freed;
    top.final();
    return count;
}}
"""


class _Top(wiring.Component):
    """The port with sequencer and reader, and plain signals of at most 32 bits. While `alone`, words come from `write`."""

    def __init__(self, config: PortConfig):
        self.config = config
        self.words = [f"word{k}" for k in range(config.bus_bytes // 4)]
        self.lanes = [f"lane{k}" for k in range(config.lanes)]
        plain = {
            "write": In(1),
            "program_write": In(1),
            "program_word": In(32),
            "pages": In(32),
            "first_block": In(32),
            "block_stride": In(32),
            "flush": In(1),
            "ready": In(1),
            "valid": Out(1),
            "last": Out(1),
            "ends": Out(1),
            "free": Out(1),
            "error_valid": Out(1),
            "error_code": Out(8),
            "error_block": Out(32),
            "error_line": Out(13),
            "error_item": Out(32),
            "tuples": Out(32),
            "skipped": Out(32),
            "stalls": Out(32),
        }
        plain |= {
            "alone": In(1),
            "start": In(1),
            "epochs": In(32),
            "arvalid": Out(1),
            "araddr": Out(32),
            "arlen": Out(8),
            "rvalid": In(1),
            "rready": Out(1),
        }
        super().__init__(
            {**plain, **{n: In(32) for n in self.words}, **{n: Out(32) for n in self.lanes}}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = AccessPort(self.config)
        for name in ("pages", "first_block", "block_stride", "flush"):
            m.d.comb += getattr(port, name).eq(getattr(self, name))
        for name in ("free", "tuples", "skipped", "stalls"):
            m.d.comb += getattr(self, name).eq(getattr(port, name))
        for name in ("valid", "code", "block", "line", "item"):
            m.d.comb += getattr(self, f"error_{name}").eq(getattr(port.error, name))
        words = Cat(getattr(self, n) for n in self.words)
        m.submodules.sequencer = sequencer = PageSequencer(
            bus_bytes=self.config.bus_bytes,
            page_size=self.config.page_size,
            credits=self.config.credits,
            address_width=32,
        )
        m.submodules.reader = reader = BurstReader(
            bus_bytes=self.config.bus_bytes, address_width=32
        )
        wiring.connect(m, sequencer.o, reader.i)
        m.d.comb += [
            sequencer.start.eq(self.start),
            sequencer.stride.eq(self.config.page_size),
            sequencer.pages.eq(self.pages),
            sequencer.epochs.eq(self.epochs),
            sequencer.free.eq(port.free),
            self.arvalid.eq(reader.bus.arvalid),
            self.araddr.eq(reader.bus.araddr),
            self.arlen.eq(reader.bus.arlen),
            reader.bus.arready.eq(1),
            reader.bus.rvalid.eq(self.rvalid),
            reader.bus.rdata.eq(words),
            self.rready.eq(reader.bus.rready),
            reader.o.ready.eq(1),
            port.i.payload.eq(words),
            port.i.valid.eq(Mux(self.alone, self.write, reader.o.valid)),
        ]
        m.d.comb += [
            port.i_program.payload.eq(self.program_word),
            port.i_program.valid.eq(self.program_write),
            port.o.ready.eq(self.ready),
            self.valid.eq(port.o.valid),
            self.last.eq(port.o.p.last),
            self.ends.eq(port.o.p.end),
        ]
        m.d.comb += [getattr(self, n).eq(port.o.p.lanes[k]) for k, n in enumerate(self.lanes)]
        return m


class _Run(ctypes.Structure):
    _fields_ = (
        [(n, ctypes.c_void_p) for n in ("words", "program", "offer", "ready")]
        + [
            (n, ctypes.c_uint64)
            for n in (
                "pages",
                "epochs",
                "page_words",
                "program_words",
                "offers",
                "readies",
                "limit",
                "credits",
                "first_block",
                "block_stride",
                "room",
                "latency",
                "interval",
            )
        ]
        + [
            (n, ctypes.c_void_p)
            for n in ("arrivals", "frees", "cycles", "flags", "codes", "status")
        ]
    )


@dataclass
class Outcome:
    """What a port did. Cycles count from the first in which a word may come.

    `tokens` are (cycle, kind) of each tuple's first beat and each epoch's end as they were taken, and of an error when it was
    signalled; `beats` the cycles of all beats; `arrivals` and `frees` the cycles of each page's last word and of the pulses on `free`.
    """

    tuples: NDArray[np.int64]
    tokens: list[tuple[int, str]]
    beats: NDArray[np.uint64]
    error: HardwareError | None
    arrivals: list[int]
    frees: list[int]
    counters: tuple[int, int, int]
    cycles: int
    complete: bool


@lru_cache(maxsize=16)
def _build(config: PortConfig) -> ctypes.CDLL:
    top = _Top(config)
    verilog = to_verilog(top, name=TOP)
    drive = " ".join(f"top.{n} = w[{k}];" for k, n in enumerate(top.words))
    harness = _HARNESS.format(
        words=len(top.words),
        drive=drive,
        collect=" ".join(
            f"r->codes[count * {len(top.lanes)} + {k}] = top.{n};" for k, n in enumerate(top.lanes)
        ),
    )
    loop = library(verilog, harness)
    loop.run.restype = ctypes.c_uint64
    return loop


def run_port(
    config: PortConfig,
    program: Sequence[Instruction],
    pages: NDArray[np.uint8],
    *,
    epochs: int = 1,
    offer: NDArray[np.bool_] | None = None,
    ready: NDArray[np.bool_] | None = None,
    first_block: int = 0,
    block_stride: int = 1,
    limit: int = 0,
    memory: FixedLatency | None = None,
) -> Outcome:
    """Run `epochs` passes over `pages` (or until an error).

    `offer` and `ready` are patterns over cycles, repeated; None: always. With `memory` a sequencer and a reader fetch the pages from it, from
    address 0 on, `start` coming in cycle 0.
    """
    always = np.ones(1, dtype=np.uint8)
    offers = always if offer is None else np.ascontiguousarray(offer, dtype=np.uint8)
    readies = always if ready is None else np.ascontiguousarray(ready, dtype=np.uint8)
    words = np.ascontiguousarray(pages).view("<u4").reshape(-1)
    image = np.ascontiguousarray(encode(program))
    total = len(pages) * epochs
    per_page = config.page_size // 28 + 2
    room = total * per_page * config.beats + epochs
    arrays = {
        "words": words,
        "program": image,
        "offer": offers,
        "ready": readies,
        "arrivals": np.zeros(total, np.uint64),
        "frees": np.zeros(total, np.uint64),
        "cycles": np.zeros(room, np.uint64),
        "flags": np.zeros(room, np.uint32),
        "codes": np.zeros((room, config.lanes), np.uint32),
        "status": np.zeros(16, np.uint64),
    }
    share = min(
        offers.mean(),
        readies.mean(),
        1.0 if memory is None else 1 / (memory.interval(config.bus_bytes) + memory.latency / 8),
    )
    limit = limit or int(
        1000 + total * (config.words_per_page + per_page * (config.beats + 200)) / max(share, 0.01)
    )
    timing = (
        {}
        if memory is None
        else {"latency": memory.latency, "interval": memory.interval(config.bus_bytes)}
    )
    run = _Run(
        **timing,
        pages=len(pages),
        epochs=epochs,
        page_words=config.words_per_page,
        program_words=len(image),
        offers=len(offers),
        readies=len(readies),
        limit=limit,
        credits=config.credits,
        first_block=first_block,
        block_stride=block_stride,
        room=room,
        **{n: a.ctypes.data for n, a in arrays.items()},
    )
    count = _build(config).run(ctypes.byref(run))
    status = arrays["status"]
    cycles, flags, codes = (
        arrays["cycles"][:count],
        arrays["flags"][:count],
        arrays["codes"][:count],
    )
    data = flags & 2 == 0
    beats = codes[data].astype(np.int64)
    whole = len(beats) // config.beats * config.beats
    tuples = beats[:whole].reshape(-1, config.beats * config.lanes)
    tokens, at = [], 0
    for cycle, flag in zip(cycles.tolist(), flags.tolist(), strict=True):
        if flag & 2:
            tokens.append((cycle, "end"))
            continue
        if at == 0:
            tokens.append((cycle, "tuple"))
        at = 0 if flag & 1 else at + 1
    error = None
    if status[0]:
        tokens.append((int(status[4]), "error"))
        error = HardwareError(
            _ERRORS.error(int(status[1])), int(status[2]), int(status[3]), int(status[11])
        )
    freed = int(status[10])
    return Outcome(
        tuples,
        tokens,
        cycles[data],
        error,
        arrays["arrivals"].tolist(),
        arrays["frees"][:freed].tolist(),
        (int(status[5]), int(status[6]), int(status[7])),
        int(status[8]),
        bool(status[0]) or int(status[9]) == epochs,
    )


def _accepter(ready: NDArray[np.bool_] | None) -> Callable[[int], int]:
    """The first cycle from its argument on in which the pattern is high."""
    if ready is None:
        return lambda cycle: cycle
    period = len(ready)
    high = np.nonzero(np.concatenate([ready, ready]))[0]
    following = high[np.searchsorted(high, np.arange(period))].tolist()
    return lambda cycle: cycle - cycle % period + following[cycle % period]


def check_port(
    config: PortConfig,
    walk: WalkConfig,
    pages: NDArray[np.uint8],
    *,
    epochs: int = 1,
    offer: NDArray[np.bool_] | None = None,
    ready: NDArray[np.bool_] | None = None,
    first_block: int = 0,
    block_stride: int = 1,
    memory: FixedLatency | None = None,
    program: Sequence[Instruction] | None = None,
) -> Outcome:
    """Run a port and compare it with the golden Strider, code by code, and with the cycle model, cycle by cycle.

    Returns the outcome. Raises AssertionError that says what differs.
    """
    program = generate(walk) if program is None else program
    out = run_port(
        config,
        program,
        pages,
        epochs=epochs,
        offer=offer,
        ready=ready,
        first_block=first_block,
        block_stride=block_stride,
        memory=memory,
    )
    assert out.complete, f"the port hangs: {len(out.tokens)} tokens in {out.cycles} cycles"
    codes, _, skipped, error = walk_table(pages, walk, first_block, block_stride)
    expected = codes if error else np.concatenate([codes] * epochs)
    assert out.error == error, f"the port reports {out.error}, the golden Strider {error}"
    assert out.tuples.shape == expected.shape, (
        f"the port delivers {out.tuples.shape[0]} tuples, the golden Strider {expected.shape[0]}"
    )
    wrong = np.nonzero((out.tuples != expected).any(axis=1))[0]
    assert not len(wrong), (
        f"tuple {wrong[0]} is {out.tuples[wrong[0]]}, should be {expected[wrong[0]]}"
    )
    assert out.counters[0] == len(expected), (
        f"{out.counters[0]} tuples counted, {len(expected)} delivered"
    )
    left = skipped.skipped * (1 if error else epochs)
    ahead = error is not None and config.striders > 1  # others count what lies behind the error
    assert ahead or out.counters[1] == left, f"{out.counters[1]} tuples left out, should be {left}"
    costs = analyse(config, walk, pages)
    model = (
        Collector(config, costs, out.arrivals.__getitem__)
        if memory is None
        else PortModel(config, costs, memory.port(config.bus_bytes))
    )
    accept = _accepter(ready)
    tokens = [model.pull(accept) for _ in out.tokens]
    late = [k for k, (a, b) in enumerate(zip(tokens, out.tokens, strict=True)) if a != b]
    assert not late, f"token {late[0]} is {out.tokens[late[0]]}, the model says {tokens[late[0]]}"
    both = min(len(model.free), len(out.frees))
    assert model.free[:both] == out.frees[:both], (
        "page buffers are freed in other cycles than the model says"
    )
    return out
