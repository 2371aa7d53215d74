"""RTLIL as Verilog (IEEE 1364-2005) for people and for every tool.

* Each identifier is plain. What has no name in the source stands inside the expression that uses it where it is used
  once; else it is named after the signal that it is for.
* Combinational logic is `assign`, which simulators evaluate at time zero, in whatever language mode; `always @*` they need not.
* Registers are written in `always` blocks with the conditions of the source.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from .decisions import Choice, Tree, segments, tree
from .expressions import UNARY, bare, constant, matches, operation, part, value
from .names import Names, plain
from .narrow import narrow
from .rtlil import Assignment, Bits, Cell, Chunk, Module, Process, Switch, Wire, parse
from .share import name_results, share
from .uses import CLOCKED, OUTPUTS, Uses, enables, is_output

#: characters of an expression that stands inside another one
_LONGEST = 72
#: cells that stand inside expressions; the others' width or sign depends on what is around them
_INSIDE = {
    *UNARY, "$add", "$sub", "$and", "$or", "$xor", "$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$mux", "$shl", "$shr",
}  # fmt: skip
#: how a signal without a name is called after the one that it is for
_CALLED = {
    "$add": "sum", "$sub": "difference", "$mul": "product", "$mux": "choice", "$eq": "equal", "$ne": "unequal",
    "$lt": "less", "$le": "at_most", "$gt": "more", "$ge": "at_least", "$and": "both", "$or": "either", "$not": "inverse",
    "$xor": "parity", "$neg": "negative", "$reduce_or": "any", "$reduce_bool": "any", "$reduce_and": "all",
    "$reduce_xor": "parity", "$shl": "shifted", "$shr": "shifted", "$sshr": "shifted", "$shift": "part",
    "$divfloor": "quotient", "$modfloor": "remainder", "$dff": "register", "$adff": "register",
}  # fmt: skip
#: rows that one loop fills: Quartus takes 5,000 (VERILOG_CONSTANT_LOOP_LIMIT)
_MOST_LOOPS = 4096
#: wires that the source names: not Amaranth, as what goes out of a module without one
_NAMED = re.compile(r"\\(?!port\$\d+\$\d+$)")
#: see `written`
Place = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Text:
    """A module of Verilog. `name`: as in RTLIL, where `called` is what it is called; `signals`, `unnamed`: how many signals and
    memories it declares, and how many of them have no name in the source."""

    name: str
    called: str
    text: str
    signals: int
    unnamed: int


def written(
    rtlil: str,
    names: Callable[[Iterable[str]], Mapping[str, str]] | None = None,
    place: Place | None = None,
) -> Iterator[Text]:
    """Yield the modules of a text.

    Parameters: `names`: gives what each module is called, by its name (a plain form of it without); `place`: gives the
    text of the attribute `src`, None for none, by what something is called and its place in the source (without it there are none).
    """
    modules = list(parse(rtlil))
    identifiers = [module.name for module in modules]
    chosen = _plain_names(identifiers) if names is None else names(identifiers)
    for module in modules:
        called = chosen[module.name]
        writer = _Writer(module, chosen, place)
        yield Text(module.name, called, writer.text(called), *writer.counts())


def _plain_names(modules: Iterable[str]) -> dict[str, str]:
    names = Names()
    return {name: names.give(name) for name in modules}


class _Writer:
    def __init__(
        self,
        module: Module,
        modules: Mapping[str, str],
        place: Place | None,
    ) -> None:
        self.module, self.modules, self.place = module, modules, place
        self.names = Names()
        self.called: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.declared: list[str] = []
        self.helpers = 0  # signals of the text that are no wires
        self.body: list[str] = []
        self.blocks: dict[str, list[str]] = {}
        self.registers: set[str] = set()
        share(module, is_output)
        narrow(module, is_output)
        name_results(module, is_output)
        for wire in module.wires.values():
            if wire.port:
                self.called[wire.name] = self.names.give(wire.name)
        for name, wire in module.wires.items():
            if not wire.port and name.startswith("\\") and wire.width:
                self.called[name] = self.names.give(name)
        self.memories = {name: self.names.give(name) for name in module.memories}
        self.uses = Uses(module, frozenset(self.called))

    # names and expressions

    def _name(self, wire: str) -> str:
        """Return what a wire is called."""
        if wire not in self.called:
            self.called[wire] = self.names.give(self._wanted(wire))
        return self.called[wire]

    def _helper(self, wanted: str) -> str:
        """Return the name of a signal that the text has beside the wires."""
        self.helpers += 1
        return self.names.give(wanted)

    def _wanted(self, wire: str) -> str:
        """Return what a wire without a name is called: after an alias, else after the signal that it is for."""
        net = self.uses.nets[wire]
        aliases = [
            self.called[target[0].wire]
            for target, bits in self.module.connections
            if len(bits) == 1 and target and bits[0].wire == wire and target[0].wire in self.called
        ]
        if aliases:
            return f"{aliases[0]}_word"
        kind = net.driver.kind if isinstance(net.driver, Cell) else ""
        return f"{self._for(wire, {wire})}_{_CALLED.get(kind, 'value')}"

    def _for(self, wire: str, seen: set[str]) -> str:
        """Return what the signal is called that a wire without a name is for."""
        users = [user for user in self.uses.nets[wire].users if user not in seen]
        for user in users:
            if user in self.called:
                return self.called[user]
        for user in users:
            if user in self.uses.nets:
                seen.add(user)
                return self._for(user, seen)
        return plain(next((user for user in users if user.startswith("\\")), "logic"))

    def _refer(self, chunk: Chunk) -> str:
        """Return how bits of a wire are written, what computes them in parentheses where they have no name."""
        wire = chunk.wire
        width = self.module.wires[wire].width
        if chunk.width == width and wire not in self.called:
            if wire in self.inside or self._try_inside(wire):
                return self.inside[wire]
        name = self._name(wire)
        if chunk.width == width:
            return name
        if chunk.width == 1:
            return f"{name}[{chunk.low}]"
        return f"{name}[{chunk.low + chunk.width - 1}:{chunk.low}]"

    def _try_inside(self, wire: str) -> bool:
        net = self.uses.nets[wire]
        cell = net.driver
        if net.cut or not isinstance(cell, Cell) or cell.kind not in _INSIDE:
            return False
        if net.uses > (1 if not self._short(cell) else 99 if cell.kind == "$not" else 8):
            return False
        text = operation(cell, self._refer)
        if (len(text) > _LONGEST and net.uses > 1) or len(text) > 2 * _LONGEST:
            return False
        simple = text.lstrip("~").replace("'", "").replace("_", "").isalnum()
        self.inside[wire] = text if simple else f"({text})"
        return True

    def _short(self, cell: Cell) -> bool:
        """Whether a cell may be written as often as it is used: one operation on what has a name."""
        inputs = [b for port, bits in cell.ports.items() if port not in OUTPUTS for b in bits]
        return len(inputs) <= 2 and all(
            not c.wire
            or c.wire in self.called
            or (c.wire in self.inside and len(self.inside[c.wire]) < 24)
            for c in inputs
        )

    def _value(self, bits: Bits) -> str:
        """Return a value as it stands alone."""
        return bare(value(bits, self._refer))

    # the text

    def text(self, called: str) -> str:
        for cell in self.module.cells:
            self._cell(cell)
        for target, process in self.uses.processes.items():
            if not self.uses.is_clocked(target):
                self._process(target, process)
        for connected, bits in self.module.connections:
            if connected:
                self.body.append(f"assign {self._value(connected)} = {self._value(bits)};")
        self._operations()
        lines = [f"{self._source('', self.module.attributes, '')}module {called} ("]
        ports = [wire for wire in self.module.wires.values() if wire.port and wire.width]
        lines.append(",\n".join(f"  {self._port(wire.name)}" for wire in ports))
        lines.append(");")
        lines += [f"  {line}" for line in self._wires()]
        lines += [f"  {line}" for line in self.declared]
        lines += [f"  {line}" for line in self.body]
        for edge, block in self.blocks.items():
            lines += ["", f"  always @({edge}) begin", *(f"    {line}" for line in block), "  end"]
        lines.append("endmodule")
        return "\n".join(lines).replace(" \n", "\n") + "\n"

    def counts(self) -> tuple[int, int]:
        """Return how many signals and memories the text declares, and how many of them have no name in the source."""
        wires = [name for name in self.called if self.module.wires[name].width]
        unnamed = self.helpers + sum(_NAMED.match(name) is None for name in wires)
        return len(wires) + len(self.memories) + self.helpers, unnamed

    def _source(self, name: str, attributes: Mapping[str, str], end: str = " ") -> str:
        """Return the attributes of what is called `name`, as they stand before it."""
        entries = []
        for kind, text in attributes.items():
            if kind == "src":
                where = self.place(name, text) if self.place else None
                entries += [f'src = "{where}"'] if where else []
            elif kind in ("keep", "ram_style"):
                entries.append(f'{kind} = "{text}"' if kind == "ram_style" else f"{kind} = 1")
        return f"(* {', '.join(entries)} *){end or chr(10)}" if entries else ""

    def _shape(self, wire: str) -> str:
        width = self.module.wires[wire].width
        return f"[{width - 1}:0] " if width > 1 else ""

    def _start(self, wire: str) -> str:
        init = self.module.wires[wire].attributes.get("init", "").partition("'")[2]
        return f" = {constant(init)}" if init and wire in self.registers else ""

    def _port(self, wire: str) -> str:
        port = self.module.wires[wire]
        kind = "reg " if wire in self.registers else "wire "
        text = f"{port.port} {kind}{self._shape(wire)}{self.called[wire]}{self._start(wire)}"
        return self._source(self.called[wire], port.attributes) + text

    def _wires(self) -> Iterator[str]:
        for name, wire in self.module.wires.items():
            if wire.port or name not in self.called or not wire.width:
                continue
            kind = "reg" if name in self.registers else "wire"
            text = f"{kind} {self._shape(name)}{self.called[name]}{self._start(name)};"
            yield self._source(self.called[name], wire.attributes) + text

    def _operations(self) -> None:
        """Assign those results of cells that have a name, which may name others."""
        done: set[str] = set()
        ready = False
        while not ready:
            ready = True
            for cell in self.module.cells:
                if not cell.kind.startswith("$") or "Y" not in cell.ports or cell.name in done:
                    continue
                bits = cell.ports["Y"]
                if not bits or bits[0].wire not in self.called:
                    continue
                done.add(cell.name)
                ready = False
                self._assign(cell, bits)

    def _assign(self, cell: Cell, bits: Bits) -> None:
        target, width = self._value(bits), sum(chunk.width for chunk in bits)
        text = operation(cell, self._refer)
        have = max(width, sum(chunk.width for chunk in cell.ports["A"]))
        if cell.kind == "$shift" and have > width:
            wide = self._helper(f"{target}_shifted")
            self.declared.append(f"wire [{have - 1}:0] {wide};")
            self.body.append(f"assign {wide} = {text};")
            text = f"{wide}[{width - 1}:0]" if width > 1 else f"{wide}[0]"
        self.body.append(f"assign {target} = {text};")

    def _cell(self, cell: Cell) -> None:
        """Write a cell that is no operation."""
        if cell.kind in CLOCKED:
            self._register(cell)
        elif cell.kind == "$memrd_v2":
            self._read_port(cell)
        elif cell.kind == "$memwr_v2":
            self._write_port(cell)
        elif cell.kind == "$meminit_v2":
            self._memory(cell)
        elif cell.kind.startswith("\\"):
            self._instance(cell)
        elif "Y" not in cell.ports or cell.kind in (
            "$anyconst",
            "$anyseq",
            "$initstate",
            "$tribuf",
        ):
            raise NotImplementedError(f"{cell.kind} has no place in a design's Verilog")

    def _instance(self, cell: Cell) -> None:
        kind = cell.kind.removeprefix("\\")
        settings = [f".{name}({_parameter(text)})" for name, text in cell.parameters.items()]
        joined = [
            f"    .{plain(name)}({self._value(bits)})" for name, bits in cell.ports.items() if bits
        ]
        parameters = f" #({', '.join(settings)})" if settings else ""
        name = self.names.give(cell.name)
        head = f"{self._source(cell.name, cell.attributes)}{self.modules.get(kind, kind)}{parameters} {name} ("
        self.body += [head, *(f"{line}," for line in joined[:-1]), *joined[-1:], ");"]

    # registers

    def _edge(self, cell: Cell, clock: str = "CLK") -> str:
        up = cell.parameters["CLK_POLARITY"].endswith("1")
        return f"{'posedge' if up else 'negedge'} {self._value(cell.ports[clock])}"

    def _register(self, cell: Cell) -> None:
        target = cell.ports["Q"]
        if not target:
            return
        wire = target[0].wire
        self.registers.add(wire)
        name, edge, following = self._name(wire), self._edge(cell), cell.ports["D"]
        if cell.kind == "$adff":
            edge += f" or posedge {self._value(cell.ports['ARST'])}"
        if following and following[0].wire in self.uses.next:
            body = self.uses.processes[following[0].wire].body
            if body and _holds(body[0], wire):
                body = body[1:]  # it keeps what it has, unless something below says otherwise
            lines = list(self._statements(body, name, wire, following[0].wire))
        else:
            lines = [f"{name} <= {self._value(following)};"]
        if cell.kind == "$adff":
            start = constant(cell.parameters["ARST_VALUE"].partition("'")[2])
            reset = self._value(cell.ports["ARST"])
            lines = [f"if ({reset}) {name} <= {start};", "else begin", *_indented(lines), "end"]
        self.blocks.setdefault(edge, []).extend(lines)

    def _statements(
        self, body: list[Assignment | Switch], name: str, wire: str, target: str
    ) -> Iterator[str]:
        """Yield what a register becomes, with the conditions of the source."""
        for item in body:
            if isinstance(item, Assignment):
                at = 0
                for chunk in item.target:
                    bits = part(item.value, at, chunk.width)
                    at += chunk.width
                    place = name + self._range(target, chunk)
                    yield f"{place} <= {self._value(bits)};"
                continue
            yield from self._switch(item, name, wire, target)

    def _range(self, wire: str, chunk: Chunk) -> str:
        if chunk.width == self.module.wires[wire].width:
            return ""
        high = chunk.low + chunk.width - 1
        return f"[{chunk.low}]" if chunk.width == 1 else f"[{high}:{chunk.low}]"

    def _switch(self, item: Switch, name: str, wire: str, target: str) -> Iterator[str]:
        bodies = [
            (patterns, list(self._statements(inside, name, wire, target)))
            for patterns, inside in item.cases
        ]
        while bodies and not bodies[-1][1]:
            bodies.pop()
        if not bodies:
            return
        plain_patterns = [p for patterns, _ in bodies for p in patterns]
        distinct = len(set(plain_patterns)) == len(plain_patterns)
        if distinct and len(plain_patterns) > 2 and not any("-" in p for p in plain_patterns):
            if not bodies[-1][0] and not bodies[-1][1]:
                bodies.pop()
            if bodies[-1][0]:
                bodies = [(patterns, lines) for patterns, lines in bodies if lines]
            yield f"case ({self._value(item.on)})"
            for patterns, lines in bodies:
                label = ", ".join(map(constant, patterns)) or "default"
                yield from _block(f"  {label}:", lines, "  ")
            if bodies[-1][0]:
                yield "  default: ;"
            yield "endcase"
            return
        word = "if"
        for patterns, lines in bodies:
            condition = self._condition(item.on, patterns)
            if condition is None:
                continue
            if condition == "":
                head = "" if word == "if" else "else"
                yield from (lines if not head else _block(head, lines))
                return
            yield from _block(f"{word} ({condition})", lines)
            word = "else if"

    def _condition(self, on: Bits, patterns: tuple[str, ...]) -> str | None:
        """Return when a case is taken: "" for always, None for never."""
        conditions = [matches(on, pattern, self._refer) for pattern in patterns]
        conditions = [term if term is None else bare(term) for term in conditions]
        if not patterns or "" in conditions:
            return ""
        terms = [term for term in conditions if term]
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else " || ".join(f"({term})" for term in terms)

    # decisions

    def _process(self, target: str, process: Process) -> None:
        name = self._name(target)
        for low, width in segments(process):
            place = name + self._range(target, Chunk(target, low, width))
            root = tree(process, low, width, partial(self._stage, name, width))
            self.body.append(f"assign {place} = {self._tree(root, '    ')};")

    def _tree(self, node: Tree, indent: str) -> str:
        lines: list[str] = []
        while isinstance(node, Choice):  # what holds otherwise goes on below
            following = node.otherwise
            for patterns, inside in node.branches:
                condition = self._condition(node.on, patterns)
                if condition == "":
                    following = inside
                    break
                if condition is not None:
                    text = self._tree(inside, indent + "  ")
                    text = f"({text})" if isinstance(inside, Choice) else text
                    lines.append(f"\n{indent}{condition} ? {text} :")
            node = following
        text = self._value(node)
        return "".join((*lines, f"\n{indent}{text}")) if lines else text

    def _stage(self, name: str, width: int, choice: Choice) -> Bits:
        """Give a decision on which several branches of a later one fall back a wire of its own."""
        wire = f"$stage{len(self.module.wires)}"
        self.module.wires[wire] = Wire(wire, width, "", {})
        self.called[wire] = self.names.give(f"{name}_before")
        self.body.append(f"assign {self.called[wire]} = {self._tree(choice, '    ')};")
        return (Chunk(wire, 0, width),)

    # memories

    def _memory(self, cell: Cell) -> None:
        name = self._memory_name(cell)
        memory = self.module.memories[name]
        shape = f"[{memory.width - 1}:0] " if memory.width > 1 else ""
        attributes = self._source(name, memory.attributes)
        self.declared += [attributes.rstrip()] if attributes else []
        called = self.memories[name]
        self.declared.append(f"reg {shape}{called} [{memory.depth - 1}:0];")
        data = "".join(chunk.value for chunk in reversed(cell.ports["DATA"]))
        ends = range(len(data), 0, -memory.width)
        words = [int(data[end - memory.width : end], 2) for end in ends]
        row, block = (self.names.give(f"{called}_{what}") for what in ("row", "start"))
        lines: list[str] = []
        for (word, _), run in groupby(enumerate(words), lambda i: (i[1], i[0] // _MOST_LOOPS)):
            places = [place for place, _ in run]
            text = f"{memory.width}'h{word:0{-(-memory.width // 4)}x};"
            head = f"  for ({row} = {places[0]}; {row} <= {places[-1]}; {row} = {row} + 1)"
            rows = [f"  {called}[{place}] = {text}" for place in places]
            lines += rows if len(rows) < 4 else [f"{head} {called}[{row}] = {text}"]
        counted = [f"  integer {row};"] if any(line.startswith("  for ") for line in lines) else []
        self.declared += [f"initial begin : {block}", *counted, *lines, "end"]

    @staticmethod
    def _memory_name(cell: Cell) -> str:
        return cell.parameters["MEMID"].strip('"').replace("\\\\", "\\")

    def _index(self, cell: Cell) -> str:
        return self._value(cell.ports["ADDR"]) if cell.ports["ADDR"] else "0"

    def _write_port(self, cell: Cell) -> None:
        memory = self.memories[self._memory_name(cell)]
        width = self.module.memories[self._memory_name(cell)].width
        block = self.blocks.setdefault(self._edge(cell), [])
        index = self._index(cell)
        for low, count, enable in enables(cell.ports["EN"]):
            place = f"{memory}[{index}]"
            if count < width:
                place += f"[{low + count - 1}:{low}]" if count > 1 else f"[{low}]"
            text = f"{place} <= {self._value(part(cell.ports['DATA'], low, count))};"
            condition = self._value((enable,))
            if enable.wire or enable.value != "0":
                block.append(text if condition == "1'd1" else f"if ({condition}) {text}")

    def _read_port(self, cell: Cell) -> None:
        target = cell.ports["DATA"]
        if not target:
            return
        memory, index = self.memories[self._memory_name(cell)], self._index(cell)
        name = self._name(target[0].wire)
        if not cell.parameters["CLK_ENABLE"].endswith("1"):
            self.body.append(f"assign {name} = {memory}[{index}];")
            return
        enable = self._value(cell.ports["EN"])
        block = self.blocks.setdefault(self._edge(cell), [])
        seen = cell.parameters["TRANSPARENCY_MASK"].partition("'")[2]
        if "1" in seen and "0" not in seen and enable == "1'd1" and cell.ports["ADDR"]:
            # as every synthesiser knows a memory that shows what is just being written
            width = sum(chunk.width for chunk in cell.ports["ADDR"])
            place = self._helper(f"{name}_address")
            self.declared.append(f"reg {f'[{width - 1}:0] ' if width > 1 else ''}{place};")
            block.append(f"{place} <= {index};")
            self.body.append(f"assign {name} = {memory}[{place}];")
            return
        self.registers.add(target[0].wire)
        lines = [f"{name} <= {memory}[{index}];"]
        lines += self._passed(cell, seen[::-1], name, index)
        block += lines if enable == "1'd1" else _block(f"if ({enable})", lines)

    def _passed(self, cell: Cell, seen: str, name: str, index: str) -> Iterator[str]:
        """Yield what puts words that are just being written in place of those that are read."""
        for other in self.module.cells:
            if other.kind != "$memwr_v2" or self._memory_name(other) != self._memory_name(cell):
                continue
            number = int(other.parameters["PORTID"].rpartition("'")[2], 10)
            if number >= len(seen) or seen[number] != "1":
                continue
            width = sum(chunk.width for chunk in other.ports["DATA"])
            same = f"{self._index(other)} == {index}" if other.ports["ADDR"] else "1'd1"
            for low, count, enable in enables(other.ports["EN"]):
                place = name
                if count < width:
                    place += f"[{low + count - 1}:{low}]" if count > 1 else f"[{low}]"
                data = self._value(part(other.ports["DATA"], low, count))
                yield f"if ({self._value((enable,))} && {same}) {place} <= {data};"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _block(head: str, lines: list[str], indent: str = "") -> list[str]:
    """Return statements under a condition or a label."""
    if not lines:
        return [f"{head} begin end"]
    if len(lines) == 1 and not lines[0].startswith("if "):  # whose `else` would be another's
        return [f"{head} {lines[0]}"]
    return [f"{head} begin", *(f"{indent}  {line}" for line in lines), f"{indent}end"]


def _holds(item: Assignment | Switch, wire: str) -> bool:
    """Whether a statement gives a register all that it has."""
    return isinstance(item, Assignment) and item.value == tuple(
        Chunk(wire, chunk.low, chunk.width) for chunk in item.target
    )


def _parameter(text: str) -> str:
    """Return a parameter's value as Verilog has it."""
    width, quote, bits = text.partition("'")
    return f"{width}'b{bits}" if quote and width.isdigit() else text
