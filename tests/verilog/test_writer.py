"""hdl/verilog: random modules behave in Icarus, Verilator's lint and Yosys as they do in Amaranth's simulator."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import (
    Array,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    DomainRenamer,
    Fragment,
    Instance,
    Module,
    Mux,
    ResetInserter,
    ResetSignal,
    Signal,
    Value,
    signed,
    unsigned,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from penstock.hdl.alike import Alike
from penstock.hdl.verilog import written
from penstock.hdl.verilog.names import plain
from penstock.sim.native.toolchain import verilator_root

STEPS = 40


class Drawn:
    """A random module: `ins` and `outs` are its ports. `modules`: how many it becomes, where that is known."""

    modules: int | None = None

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        shapes = [rng.choice((unsigned, signed))(rng.randint(1, 9)) for _ in range(5)]
        self.ins = [Signal(shape, name=name) for shape, name in zip(shapes, "abcde", strict=True)]
        self.outs: list[Signal] = []

    def value(self, depth: int) -> Value:
        """Return a random value of what there is."""
        rng = self.rng
        if not depth or rng.random() < 0.1:
            return rng.choice((*self.ins, *self.outs, Const(rng.randint(-9, 20))))
        a, b = self.value(depth - 1), self.value(depth - 1)
        choices = [
            lambda: a + b,
            lambda: a - b,
            lambda: (a * b)[: rng.randint(1, 6)],
            lambda: a & b,
            lambda: a | ~b,
            lambda: a ^ b,
            lambda: -a,
            lambda: Mux(a.any(), b, a),
            lambda: rng.choice((a == b, a != b, a < b, a <= b, a > b, a >= b)),
            lambda: a >> b.as_unsigned()[:3],
            lambda: (a << b.as_unsigned()[:2])[:12],
            lambda: Cat(a, b)[rng.randint(0, len(a) // 2) :],
            lambda: a.as_signed() if len(a) else a,
            lambda: rng.choice((a.any(), a.all(), a.xor(), a.bool())),
            # behind the end of a signed value Amaranth's simulator has its sign, and RTLIL 0
            lambda: Cat(a, Const(0, 12)).bit_select(b.as_unsigned()[:3], rng.randint(1, 4)),
            lambda: Cat(a, Const(0, 12)).word_select(b.as_unsigned()[:2], 2),
            lambda: Array([a, b, *self.ins[:2]])[b.as_unsigned()[:2]],
            lambda: a.replicate(2)[: max(len(a), 1)],
        ]
        found = Value.cast(rng.choice(choices)())
        return found if 0 < len(found) <= 24 else Value.cast(a if len(a) else Const(0, 1))

    def statement(self, m: Module, domain: Any, target: Signal, depth: int) -> None:
        """Assign a target under random conditions."""
        rng = self.rng
        kind = rng.random() if depth else 0
        if kind < 0.4:
            place = target
            if len(target) > 2 and rng.random() < 0.3:
                low = rng.randint(0, len(target) - 2)
                place = target[low : low + rng.randint(1, len(target) - low)]
            domain += place.eq(self.value(2))
        elif kind < 0.7:
            with m.If(self.value(1).any()):
                self.statement(m, domain, target, depth - 1)
            if rng.random() < 0.6:
                with m.Elif(self.value(2).bool()):
                    self.statement(m, domain, target, depth - 1)
            if rng.random() < 0.6:
                with m.Else():
                    self.statement(m, domain, target, depth - 1)
        else:
            on = Cat(*self.ins)[: rng.randint(1, 4)]
            patterns = [
                "".join(rng.choice("01-" if rng.random() < 0.5 else "01") for _ in on)
                for _ in range(4)
            ]
            with m.Switch(on):
                for pattern in patterns:
                    with m.Case(pattern):
                        self.statement(m, domain, target, depth - 1)
                if rng.random() < 0.5:
                    with m.Default():
                        self.statement(m, domain, target, depth - 1)

    def module(self) -> Module:
        m, rng = Module(), self.rng
        for k in range(6):
            shape = rng.choice((unsigned, signed))(rng.randint(1, 12))
            target = Signal(shape, name=f"o{k}", init=rng.randint(0, 1) if shape.width > 1 else 0)
            domain = m.d.sync if k % 2 else m.d.comb
            for _ in range(rng.randint(1, 3)):
                self.statement(m, domain, target, 3)
            self.outs.append(target)
        self.memory(m)
        return m

    def memory(self, m: Module) -> None:
        """Add a memory that is written and read in the ways there are."""
        rng = self.rng
        width, depth = rng.choice((4, 8)), rng.choice((1, 4, 9))
        init = [rng.randrange(1 << width) for _ in range(depth)]
        if same := rng.randrange(depth):
            init[:same] = init[:1] * same
        m.submodules.words = words = Memory(shape=width, depth=depth, init=init)
        write = words.write_port(granularity=rng.choice((None, 2)))
        reads = [
            words.read_port(domain="comb"),
            words.read_port(),
            words.read_port(transparent_for=(write,)),
        ]
        address = self.ins[0].as_unsigned() % depth
        m.d.comb += [
            write.addr.eq(address),
            write.data.eq(self.value(1)),
            write.en.eq(self.value(1)),
        ]
        for k, read in enumerate(reads):
            m.d.comb += read.addr.eq(self.ins[1].as_unsigned() // 3 % depth)
            if k == 1 or (k == 2 and rng.random() < 0.5):
                m.d.comb += read.en.eq(self.ins[2].any())
            out = Signal(width, name=f"r{k}")
            m.d.comb += out.eq(read.data)
            self.outs.append(out)


class Needless(Drawn):
    """Operations that change nothing or are made twice, of values of all signs and widths."""

    def module(self) -> Module:
        m, zero = Module(), Const(0, 3)
        for k, a in enumerate(self.ins):
            b = self.ins[k - 1]
            values: list[Any] = [
                a + zero,
                zero + a,
                a - zero,
                zero - a,
                a | zero,
                zero ^ a,
                a & zero,
            ]
            values += [a << n for n in (0, 3)] + [a >> n for n in (0, 2, len(a))]
            values += [Mux(Const(n, 1), a, b) for n in (0, 1)] + [Mux(b.any(), a, a)]
            values += [(a + b) ^ (a + b), a.as_unsigned() < b.as_unsigned(), a < b]
            for value in values:
                self.outs.append(out := Signal(12, name=f"o{len(self.outs)}"))
                m.d.comb += out.eq(value)
        m.d.sync += Signal(name="unused").eq(1)
        return m


class Cell(wiring.Component):
    """A register, a memory with one read port, and a part of its own; `less`: no reset reaches the register."""

    def __init__(self, start: int, *, less: bool = False, depth: int = 2) -> None:
        self.start, self.less, self.depth = start, less, depth
        super().__init__({"i": In(9), "o": Out(9)})
        self.total = Signal(9, init=start, reset_less=less)

    def elaborate(self, platform: Any) -> Module:
        m, total = Module(), self.total
        m.submodules.words = words = Memory(shape=9, depth=4, init=[self.start])
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.sync += total.eq(total + self.i)
        m.d.comb += [
            write.addr.eq(self.i),
            write.data.eq(total),
            write.en.eq(self.i[8]),
            read.addr.eq(total),
            self.o.eq(total ^ read.data),
        ]
        with m.If((self.i[:4] == 3) | (total[3:6] == 5) | (self.i[2:] < total[4:])):
            m.d.sync += total.eq(self.i ^ Cat(total[4:], total[:4]))
        if self.depth:
            m.submodules.inner = inner = Cell(self.start, depth=self.depth - 1)
            m.d.comb += [inner.i.eq(total), self.o.eq(total ^ inner.o ^ read.data)]
        return m


class Own(wiring.Component):
    """A cell in a clock domain of its own, with a reset or without."""

    def __init__(self, start: int, reset: Value | None) -> None:
        self.start, self.reset = start, reset
        super().__init__({"i": In(9), "o": Out(9)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.own = ClockDomain("own", local=True, reset_less=self.reset is None)
        m.submodules.cell = cell = DomainRenamer("own")(Cell(self.start))
        m.d.comb += [ClockSignal("own").eq(ClockSignal("sync")), cell.i.eq(self.i)]
        m.d.comb += self.o.eq(cell.o)
        if self.reset is not None:
            m.d.comb += ResetSignal("own").eq(self.reset)
        return m


class Repeated(Drawn):
    """Parts that are equal, and parts that differ in one thing each."""

    def module(self) -> Module:
        m = Module()
        m.domains.steady = ClockDomain("steady", local=True, reset_less=True)
        m.d.comb += ClockSignal("steady").eq(ClockSignal("sync"))
        start, reset = self.rng.randrange(1, 255), (self.ins[2].any(), self.ins[3].any())
        cells = [
            *(Cell(start) for _ in range(3)),
            Cell(start + 1),
            Cell(start, less=True),
            *(ResetInserter(reset[0])(Cell(start)) for _ in range(2)),
            *(ResetInserter(reset[k])(Cell(start, less=True)) for k in range(2)),
            DomainRenamer("steady")(Cell(start)),
            Cell(start, depth=1),
            seen := Cell(start),
            Own(start, None),
            Own(start, reset[0]),
        ]
        for k, cell in enumerate(cells):
            m.submodules[f"cell{k}"] = cell
            self.outs.append(out := Signal(9, name=f"o{k}"))
            value = self.ins[k % 5] if k > 2 else self.ins[0] ^ (k * 37)
            m.d.comb += [cell.i.eq(Cat(value, self.ins[k % 4])), out.eq(cell.o)]
        self.outs.append(out := Signal(9, name="seen"))
        m.d.comb += out.eq(seen.total)
        # the first three, another start, no reset of its own, two with a reset, less of it, another reset, another
        # domain, one whose register is read, and domains of their own
        self.modules = 1 + 3 + 3 + 1 + 3 + 1 + 3 + 3 + 1 + 4 + 4
        return m


def simulated(seed: int, inputs: list[list[int]], kind: type[Drawn] = Drawn) -> list[list[int]]:
    """Return the outputs of each step in Amaranth's simulator. Clocked reads count from the step on in which they are known."""
    drawn, found = kind(seed), []
    module = drawn.module()

    async def bench(ctx: Any) -> None:
        for row in inputs:
            for signal, number in zip(drawn.ins, row, strict=True):
                ctx.set(signal, number)
            await ctx.delay(1e-8)
            found.append([ctx.get(Value.cast(out).as_unsigned()) for out in drawn.outs])
            await ctx.tick()

    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def bench_text(drawn: Drawn, inputs: list[list[int]]) -> str:
    ports = [f".{s.name}({s.name})" for s in (*drawn.ins, *drawn.outs)]
    lines = [f"  reg [{len(s) - 1}:0] {s.name};" for s in drawn.ins]
    lines += [f"  wire [{len(s) - 1}:0] {s.name};" for s in drawn.outs]
    lines += [
        f"  reg clk = 0, rst = 0;\n  drawn dut (.clk(clk), .rst(rst), {', '.join(ports)});",
        "  initial begin",
    ]
    shown = ", ".join(s.name for s in drawn.outs)
    for row in inputs:
        for signal, number in zip(drawn.ins, row, strict=True):
            lines.append(f"    {signal.name} = {len(signal)}'d{number & (1 << len(signal)) - 1};")
        lines.append(
            f'    #1 $display("{" %b" * len(drawn.outs)}", {shown}); clk = 1; #1 clk = 0; #1 ;'
        )
    return "\n".join(["module bench;", *lines, "    $finish;", "  end", "endmodule", ""])


def check(seed: int, folder: Path, kind: type[Drawn] = Drawn) -> None:
    rng = random.Random(seed)
    drawn = kind(seed)
    inputs = [[rng.getrandbits(len(s)) for s in drawn.ins] for _ in range(STEPS)]
    ports = {signal.name: (signal, PortDirection.Input) for signal in drawn.ins}
    fragment = Fragment.get(drawn.module(), None)
    ports |= {signal.name: (signal, PortDirection.Output) for signal in drawn.outs}
    modules = list(written("\n".join(Alike().converted(fragment, "drawn", ports))))
    verilog = "\n".join(module.text for module in modules)
    if drawn.modules is not None:
        assert len(modules) == drawn.modules
    assert "$" not in verilog.replace("$signed", "") and "\\" not in verilog
    (folder / "dut.v").write_text(verilog)
    (folder / "bench.v").write_text(bench_text(drawn, inputs))
    standard = rng.choice(("2005", "2012"))
    command = ["iverilog", f"-g{standard}", "-o", "out", "dut.v", "bench.v"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    said = subprocess.run(
        ["vvp", "-N", "out"], cwd=folder, check=True, capture_output=True, text=True
    )
    expected = simulated(
        seed, [[_as(s, n) for s, n in zip(drawn.ins, row, strict=True)] for row in inputs], kind
    )
    for step, (line, row) in enumerate(zip(said.stdout.splitlines(), expected, strict=True)):
        for signal, bits, number in zip(drawn.outs, line.split(), row, strict=True):
            if "x" in bits:  # a clocked read before the first one
                assert signal.name in ("r1", "r2") and number == 0, (step, signal.name)
                continue
            assert int(bits, 2) == number, (step, signal.name, bits, number)
    lint = [
        str(verilator_root() / "bin" / "verilator_bin"),
        "--lint-only",
        *("-Wno-CMPCONST", "-Wno-UNSIGNED"),  # drawn values may be constants, as e ^ e
        "--top-module",
        "drawn",
        "dut.v",
    ]
    found = subprocess.run(
        lint,
        cwd=folder,
        capture_output=True,
        text=True,
        env={"VERILATOR_ROOT": str(verilator_root())},
    )
    assert not re.search("^%", found.stderr, re.MULTILINE), found.stderr


def _as(signal: Signal, number: int) -> int:
    """Return bits as a number of a signal's shape."""
    shape = signal.shape()
    return number - (1 << shape.width) if shape.signed and number >> (shape.width - 1) else number


@pytest.mark.parametrize("seed", range(6))
def test_random_modules(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_needless_operations(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, Needless)


@pytest.mark.parametrize("seed", range(2))
def test_equal_parts_are_written_once(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, Repeated)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 200))
def test_many_random_modules(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


def test_bits_behind_the_end_of_a_signed_value(tmp_path: Path) -> None:
    """Yosys's manual, `$shift`: zeros move in."""
    m, value, at, out = (
        Module(),
        Signal(signed(3), name="v"),
        Signal(3, name="at"),
        Signal(2, name="out"),
    )
    m.d.comb += out.eq(value.bit_select(at, 2))
    text = rtlil.convert(m, name="dut", ports=[value, at, out], emit_src=False)
    (tmp_path / "dut.v").write_text("".join(module.text for module in written(text)))
    (tmp_path / "bench.v").write_text(
        "module bench; reg [2:0] v = 7, at = 0; wire [1:0] o; dut d (.v(v), .at(at), .out(o));\n"
        'initial begin repeat (4) begin #1 $display("%b", o); at = at + 1; end end endmodule\n'
    )
    command = ["iverilog", "-o", "out", "dut.v", "bench.v"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(["vvp", "-N", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout.split() == ["11", "11", "01", "00"]


def test_values_without_bits() -> None:
    """A signal of no bits may stand in every operation; no text has an empty concatenation."""
    none, one = Signal(0, name="none"), Signal(name="one")
    found = [
        none.any(),
        none.all(),
        none.xor(),
        none.bool(),
        none == 0,
        none < one,
        Cat(none, one) + none,
        ~none,
        Mux(one, none, 1),
    ]
    m, outs = Module(), [Signal(2, name=f"o{k}") for k in range(len(found))]
    for out, given in zip(outs, found, strict=True):
        m.d.comb += out.eq(given)
    with m.If(one):
        m.d.sync += none.eq(none + one)
    [*_, top] = written(rtlil.convert(m, ports=[one, *outs]))
    assert "{}" not in top.text and "|)" not in top.text
    lines = {line.strip() for line in top.text.splitlines()}
    assert {"assign o0 = {1'd0, 1'd0};", "assign o1 = {1'd0, 1'd1};"} <= lines


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("module \\m", "module"),
        ("module \\m\n cell $add $1", "cell"),
        ("module \\m\n process $1", "process"),
    ],
)
def test_a_text_that_is_cut(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=f"^RTLIL ends within a {part}$"):
        list(written(text))


def test_a_register_that_keeps_its_value_after_all() -> None:
    """A later statement may take an earlier one back."""
    a, b, held = Signal(name="a"), Signal(name="b"), Signal(4, name="held")
    m = Module()
    with m.If(a):
        m.d.sync += held.eq(held + 1)
        with m.If(b):
            m.d.sync += held.eq(held)
    [*_, top] = written(rtlil.convert(m, ports=[a, b, held]))
    assert "if (b) held <= held;" in top.text and top.text.count("held <= held;") == 1


def test_first_words_that_repeat_are_a_loop() -> None:
    """Of at most as many rows as every tool unrolls."""
    m, at, data = Module(), Signal(13, name="at"), Signal(8, name="data")
    m.submodules.words = words = Memory(shape=8, depth=5000, init=[1, 2, 2, *[7] * 4600])
    m.d.comb += [(read := words.read_port(domain="comb")).addr.eq(at), data.eq(read.data)]
    *_, text = "".join(
        module.text for module in written(rtlil.convert(m, ports=[at, data]))
    ).partition("  initial ")
    assert text.partition("\n  end\n")[0].splitlines() == [
        "begin : words_start",
        "    integer words_row;",
        "    words[0] = 8'h01;",
        "    words[1] = 8'h02;",
        "    words[2] = 8'h02;",
        "    for (words_row = 3; words_row <= 4095; words_row = words_row + 1) words[words_row] = 8'h07;",
        "    for (words_row = 4096; words_row <= 4602; words_row = words_row + 1) words[words_row] = 8'h07;",
        "    for (words_row = 4603; words_row <= 4999; words_row = words_row + 1) words[words_row] = 8'h00;",
    ]


def test_plain_names() -> None:
    given = ("x.max", "_a__", "wire", "3a", "..")
    assert [*map(plain, given)] == ["x_max", "a", "wire_", "n3a", "unnamed"]


def test_what_an_instance_is_given() -> None:
    m, a, b = Module(), Signal(name="a"), Signal(name="b")
    given = {"p_WORD": "fast", "p_REAL": 1.5, "p_NUMBER": 3}
    m.submodules.cell = Instance("cell", **given, i_a=a, o_b=b)
    [top] = written(rtlil.convert(m, ports=[a, b]))
    assert '#(.WORD("fast"), .REAL(1.5), .NUMBER(3))' in top.text


def test_a_decision_that_an_instance_is_given_as_well() -> None:
    """The wire is not the instance's output, so that the decision drives it."""
    text = """module \\top
  wire width 1 input 0 \\a
  wire width 1 output 1 \\x
  wire width 1 $1
  process $2
    assign $1 [0] 1'0
    switch \\a [0]
      case 1'1
        assign $1 [0] 1'1
    end
  end
  cell \\leaf \\it
    connect \\i $1 [0]
  end
  connect \\x $1 [0]
end
"""
    [top] = written(text)
    assert "assign x_word" in top.text and "assign x = x_word;" in top.text
    assert ".i(x_word)" in top.text


def test_what_an_instance_gives_has_one_name() -> None:
    m, a, b, c = Module(), Signal(name="a"), Signal(4, name="b"), Signal(4, name="c")
    m.submodules.cell = Instance("cell", i_a=a, o_b=(given := Signal(4, name="given")))
    m.d.comb += [b.eq(given + 0), c.eq((given << 0) ^ (given << 0))]
    [top] = written(rtlil.convert(m, ports=[a, b, c]))
    assert "assign b = given;" in top.text and "assign c = given ^ given;" in top.text


def test_what_amaranth_names_has_no_name() -> None:
    """Parts of a named value that go out of their module have none of the source's."""
    m, inner = Module(), Module()
    a, some, y = Signal(4, name="a"), Signal(4, name="some"), Signal(2, name="y")
    inner.d.comb += some.eq(Cat((a + 1)[:2], (a + 3)[:2]))
    m.submodules.inner = inner
    m.d.comb += y.eq(some[2:])
    modules = list(written(rtlil.convert(m, ports=[a, y], emit_src=False)))
    [found] = [module for module in modules if module.called.endswith("inner")]
    nameless = set(re.findall(r"\bport_\d+_\d+\b", found.text))
    assert nameless and found.unnamed == len(nameless) < found.signals


def test_a_loop_that_there_is_not_has_no_variable() -> None:
    m, at, data = Module(), Signal(2, name="at"), Signal(8, name="data")
    m.submodules.words = words = Memory(shape=8, depth=3, init=[7, 7, 7])
    m.d.comb += [(read := words.read_port(domain="comb")).addr.eq(at), data.eq(read.data)]
    text = "".join(module.text for module in written(rtlil.convert(m, ports=[at, data])))
    assert text.count("] = 8'h07;") == 3 and "integer" not in text
