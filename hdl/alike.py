"""Equal parts of a design converted once: fragments of Amaranth that differ in nothing but in what they are joined to become instances of one module.

What makes two parts equal is what elaboration left of them: statements, memories, clock domains and what a `ResetInserter` or
`DomainRenamer` around them has put in, names and starting values of signals. So nothing has to be said of a component for this.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Instance, Value
from amaranth.hdl import _ast as ast
from amaranth.hdl._ir import Design, IOBufferInstance, PortDirection, RequirePosedge
from amaranth.hdl._mem import MemoryInstance

_NAME = re.compile(r'[^\s"]+')
#: values and statements of a part that is worth a module of its own
_LEAST = 60


@dataclass
class _Part:
    """What is known of a fragment. `key`: equal for equal ones; `outside`: signals that it has in common with what is around it, in an
    order that equal ones share; `size`: its values and statements."""

    key: int = -1
    outside: list[ast.Signal] = field(default_factory=list)
    size: int = 0


class Alike:
    """Converts fragments; parts that are equal, also in different ones, become one module."""

    def __init__(self, *, sources: bool = False) -> None:
        self._sources = sources
        self._keys: dict[Any, int] = {}
        #: how often there was a part of so many statements, with such parts in it: quickly told, and equal for equal ones
        self._seen: Counter[int] = Counter()
        self._outlines: dict[Fragment, int] = {}
        #: by key: a module's name and its ports; None of one that would be empty, which no tool keeps
        self._modules: dict[int, tuple[str, list[str]] | None] = {}
        self._texts: list[str] = []
        self._design: Design
        self._parts: dict[Fragment, _Part] = {}
        self._uses: Counter[int] = Counter()

    def converted(self, fragment: Fragment, name: str, ports: Mapping[str, Any]) -> list[str]:
        """Return RTLIL of modules that are new, the used before their users, the fragment's own last."""
        self._design = design = fragment.prepare(ports=ports, hierarchy=(name,))
        self._parts, self._outlines = {}, {}
        self._uses, self._texts = Counter(), []
        self._outline(design.fragment)
        self._find(design.fragment)
        self._count(design.fragment)
        if self._replace(design.fragment):
            design = Design(design.fragment, design.ports, hierarchy=(name,))
        return [*self._texts, self._text(design, name)]

    def _text(self, design: Design, name: str) -> str:
        for info in (
            design.fragments.values()
        ):  # RTLIL has no way to quote a name, which a plan from elsewhere may say
            for each in (name, *info.name, *info.signal_names.values()):
                if not _NAME.fullmatch(each):
                    raise ValueError(f"{each!r:.60} is no name of a part or a signal")
        return str(rtlil.convert_fragment(design, name=name, emit_src=self._sources)[0])

    # what is equal

    def _outline(self, fragment: Fragment) -> int:
        inside = tuple(self._outline(sub) for sub, *_ in fragment.subfragments)
        sizes = tuple(len(statements) for statements in fragment.statements.values())
        outline = self._outlines[fragment] = hash((type(fragment).__name__, sizes, inside))
        self._seen[outline] += 1
        return outline

    def _find(self, fragment: Fragment) -> None:
        """Describe what others may be equal to."""
        for sub, *_ in fragment.subfragments:
            if self._seen[self._outlines[sub]] > 1:
                self._describe(sub)
            else:
                self._find(sub)

    def _describe(self, fragment: Fragment) -> _Part:
        for sub, *_ in fragment.subfragments:
            self._describe(sub)
        part = self._parts[fragment] = _Part()
        reader = _Reader(self._design, fragment)
        description = reader.fragment(self._parts)
        part.key = self._keys.setdefault(description, len(self._keys))
        part.outside = [s for s in reader.signals if reader.is_outside(s)]
        part.size = reader.size + sum(self._parts[sub].size for sub, *_ in fragment.subfragments)
        return part

    def _count(self, fragment: Fragment) -> None:
        """Count how often each part is used, those within equal ones once."""
        for sub, *_ in fragment.subfragments:
            part = self._parts.get(sub)
            if part is None:
                self._count(sub)
                continue
            key = part.key
            self._uses[key] += 1
            if self._uses[key] == 1 and key not in self._modules:
                self._count(sub)

    # instances

    def _replace(self, fragment: Fragment) -> bool:
        """Put instances in; return whether there are some."""
        changed = False
        for k, (sub, name, source) in enumerate(fragment.subfragments):
            part, instance = self._parts.get(sub), None
            if part is not None and part.size >= _LEAST and type(sub) is Fragment:
                if self._uses[part.key] > 1 or part.key in self._modules:
                    instance = self._instance(sub, part)
            if instance is not None:
                fragment.subfragments[k] = (instance, name, source)
            changed |= instance is not None or self._replace(sub)
        return changed

    def _instance(self, fragment: Fragment, part: _Part) -> Instance | None:
        if part.key not in self._modules:
            self._modules[part.key] = self._module(fragment, part)
        module = self._modules[part.key]
        if module is None:
            return None
        name, ports = module
        driven = _driven(fragment)
        joined = [
            ("o" if signal.duid in driven else "i", port, signal)
            for port, signal in zip(ports, part.outside, strict=True)
            if len(signal)
        ]
        return Instance(name, *joined, src_loc=fragment.src_loc)

    def _module(self, fragment: Fragment, part: _Part) -> tuple[str, list[str]] | None:
        driven = _driven(fragment)
        self._replace(fragment)
        name = ".".join(self._design.fragments[fragment].name)
        ports = list(_port_names(part.outside))
        directions = [
            PortDirection.Output if signal.duid in driven else PortDirection.Input
            for signal in part.outside
        ]
        listed = zip(ports, part.outside, directions, strict=True)
        alone = Design(fragment, [each for each in listed if len(each[1])], hierarchy=(name,))
        text = self._text(alone, name)
        if f"module \\{name}\n" not in text:
            return None
        self._texts.append(text)
        return name, ports


def _port_names(signals: Iterable[ast.Signal]) -> Iterator[str]:
    taken: set[str] = set()
    for signal in signals:
        base = name = signal.name or "joined"
        while name in taken:
            name = f"{base}${len(taken)}"
        taken.add(name)
        yield name


def _driven(fragment: Fragment) -> set[int]:
    """Return the signals that a fragment and what is in it drive, by their numbers."""
    values: list[Any] = list(fragment.statements.values())
    if isinstance(fragment, Instance):
        values += [
            value
            for value, way in fragment.ports.values()
            if way == "o" and isinstance(value, Value)
        ]
    if isinstance(fragment, MemoryInstance):
        values += [port._data for port in fragment._read_ports]
    numbers = {signal.duid for value in values for signal in value._lhs_signals()}
    return numbers.union(*(_driven(sub) for sub, *_ in fragment.subfragments))


class _Reader:
    """Tells of one fragment, with numbers in place of its signals, in the order in which they come."""

    def __init__(self, design: Design, fragment: Fragment) -> None:
        self._fragment = fragment
        info = design.fragments[fragment]
        self._around = (
            design.fragments[info.parent].used_signals if info.parent else ast.SignalDict()
        )
        self.signals: list[ast.Signal] = []
        self._seen: dict[int, int] = {}
        self.size = 0

    def is_outside(self, signal: ast.Signal) -> bool:
        return signal in self._around

    def fragment(self, parts: Mapping[Fragment, _Part]) -> tuple[Any, ...]:
        """Return all that there is to tell; that of what is in it stands in `parts`."""
        fragment = self._fragment
        description = [
            type(fragment).__name__,
            _plain(fragment.attrs),
            self._special(),
            tuple(
                (self._domain(domain), tuple(self._statement(each) for each in statements))
                for domain, statements in fragment.statements.items()
            ),
            tuple(
                (name, parts[sub].key, tuple(self._number(s) for s in parts[sub].outside))
                for sub, name, _ in fragment.subfragments
            ),
        ]
        return (*description, tuple(self._signal(signal) for signal in self.signals))

    def _special(self) -> Any:
        cell = self._fragment
        if isinstance(cell, Instance):
            ports = [(name, way, self._value(value)) for name, (value, way) in cell.ports.items()]
            return cell.type, _plain(cell.parameters), tuple(ports)
        if isinstance(cell, MemoryInstance):
            return self._memory(cell)
        if isinstance(cell, RequirePosedge):
            return self._domain(cell._domain)
        return id(cell) if isinstance(cell, IOBufferInstance) else None

    def _memory(self, memory: MemoryInstance) -> tuple[Any, ...]:
        stored = memory._data
        reads = [
            (self._domain(p._domain), self._values(p._addr, p._data, p._en), p._transparent_for)
            for p in memory._read_ports
        ]
        writes = [
            (self._domain(p._domain), self._values(p._addr, p._data, p._en))
            for p in memory._write_ports
        ]
        shape = ast.Shape.cast(stored.shape)
        what = (stored.depth, shape.width, shape.signed, tuple(stored.init._raw))
        return what, _plain(memory._attrs), tuple(reads), tuple(writes)

    def _domain(self, name: str) -> tuple[Any, ...]:
        if name == "comb":
            return ()
        domain = self._fragment.domains[name]
        reset = None if domain.rst is None else self._number(domain.rst)
        return self._number(domain.clk), reset, domain.clk_edge, domain.async_reset

    def _number(self, signal: ast.Signal) -> int:
        number = self._seen.setdefault(signal.duid, len(self.signals))
        if number == len(self.signals):
            self.signals.append(signal)
        return number

    def _signal(self, signal: ast.Signal) -> tuple[Any, ...]:
        about = (signal.name, len(signal), signal.shape().signed, signal.init, signal.reset_less)
        return (*about, _plain(signal.attrs), self.is_outside(signal))

    def _statement(self, statement: Any) -> tuple[Any, ...]:
        self.size += 1
        if isinstance(statement, ast.Assign):
            return self._values(statement.lhs, statement.rhs)
        if isinstance(statement, ast.Switch):
            cases = [
                (patterns, tuple(self._statement(each) for each in inside))
                for patterns, inside, _ in statement.cases
            ]
            return (self._value(statement.test), tuple(cases))
        return (id(statement),)  # of simulations and proofs alone

    def _values(self, *values: Value) -> tuple[Any, ...]:
        return tuple(self._value(value) for value in values)

    def _value(self, value: Any) -> Any:
        if isinstance(value, ast.Signal):
            return self._number(value)
        self.size += 1
        if isinstance(value, ast.Const):
            return "const", value.value, len(value), value.shape().signed
        if isinstance(value, ast.Operator):
            return value.operator, self._values(*value.operands)
        if isinstance(value, ast.Slice):
            return "slice", self._value(value.value), value.start, value.stop
        if isinstance(value, ast.Part):
            of = self._values(value.value, value.offset)
            return "part", of, value.width, value.stride
        if isinstance(value, ast.Concat):
            return "cat", self._values(*value.parts)
        if isinstance(value, ast.SwitchValue):
            cases = [(patterns, self._value(each)) for patterns, each in value.cases]
            return "switch", self._value(value.test), tuple(cases)
        return id(value)


def _plain(attributes: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, type(value).__name__, repr(value)) for name, value in attributes.items())
