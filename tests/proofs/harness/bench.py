# amaranth: UnusedElaboratable=no
"""A bench: a component among free inputs, with what is assumed of them and what is to hold."""

from __future__ import annotations

from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cat, ClockDomain, Module, Mux, Signal, Value
from amaranth.hdl._ir import PortDirection

__all__ = ["BAD", "Bench", "Problem"]

#: the output that is high when an assumption never failed and a check does
BAD = "bad"


class Problem(Exception):
    """A bench that cannot be decided, or a tool that failed."""


class Bench:
    """One clock domain, `sync`, which starts from its initial state and is never reset.

    A check has to hold in each cycle up to which all assumptions held. All texts are the contract's
    words: they are what a failing proof prints. `m` is the module to add to.
    """

    def __init__(self) -> None:
        self.m = Module()
        self.clock = ClockDomain("sync", reset_less=True)
        self.m.domains.sync = self.clock
        self.d = self.m.d
        self.inputs: dict[str, Signal] = {}
        self.constants: set[str] = set()
        self.shown: dict[str, Value] = {}
        self.looked_at: Any = None  #: what the player of a directed run looks at
        self.checks: dict[str, Signal] = {}
        self.assumptions: dict[str, Signal] = {}
        self.covers: dict[str, Signal] = {}
        self.bad, self._built, self._text = Signal(), False, ""
        self._pasts = 0
        self.first = Signal(init=1)  #: high in the first cycle
        self.m.d.sync += self.first.eq(0)

    def free(self, name: str, shape=1) -> Signal:
        """Return a signal with any value in each cycle."""
        if name in self.inputs:
            raise Problem(f"two inputs are called {name}")
        signal = Signal(shape, name="in_" + "".join(c if c.isalnum() else "_" for c in name))
        plain = signal.as_value() if hasattr(signal, "as_value") else signal
        self.inputs[name] = plain
        return signal

    def constant(self, name: str, shape=1) -> Signal:
        """Return a signal with any value, the same in all cycles."""
        chosen = self.free(name, shape)
        self.constants.add(name)
        bits = Value.cast(chosen)
        kept, value = Signal(len(bits)), Signal(shape)
        with self.m.If(self.first):
            self.d.sync += kept.eq(bits)
        self.d.comb += Value.cast(value).eq(Mux(self.first, bits, kept))
        return value

    def past(self, value, init: int = 0) -> Signal:
        """Return a value of the cycle before; `init` in the first cycle."""
        value = Value.cast(value)
        self._pasts += 1
        before = Signal(len(value), init=init, name=f"past{self._pasts}")
        self.d.sync += before.eq(value)
        return before

    def show(self, name: str, value) -> None:
        """Have a failing proof print a value, beside the inputs."""
        self.shown[name] = Value.cast(value)

    def check(self, text: str, condition) -> None:
        """State what has to hold in each cycle."""
        self._add(self.checks, "check", text, condition)

    def check_only(self, words: str) -> None:
        """Forget all checks but those that say `words`: others have a proof of their own, and a
        defect is to break what this one is about.
        """
        self.checks = {text: signal for text, signal in self.checks.items() if words in text}

    def assume(self, text: str, condition) -> None:
        """State what the component may rely on."""
        self._add(self.assumptions, "assume", text, condition)

    def cover(self, text: str, condition) -> None:
        """State what must be able to happen."""
        self._add(self.covers, "cover", text, condition)

    def _add(self, to: dict[str, Signal], kind: str, text: str, condition) -> None:
        number = 2
        base = text
        while text in to:
            text, number = f"{base} ({number})", number + 1
        to[text] = signal = Signal(name=f"{kind}{len(to)}")
        value = Value.cast(condition)
        if kind != "cover" and (len(value) != 1 or value.shape().signed):
            # `~` of it would be true whatever it is
            raise Problem(f"{text!r} is no condition of one bit")
        self.d.comb += signal.eq(value.bool())

    def steady(self, kind, who: str, valid, ready, *payload) -> None:
        """Check or assume (`kind`) that what is offered stays as it is until it is taken."""
        kind(
            f"{who}: what is offered stays until it is taken",
            ~self.past(valid & ~ready)
            | (valid & (self.past(Cat(*payload)) == Cat(*payload)) if payload else valid),
        )

    def within(self, kind, text: str, waiting, bound: int, *, but=None) -> Signal:
        """Check or assume (`kind`) that `waiting` is never high for more than `bound` cycles on
        end, those not counted in which `but` is high as well.
        """
        waiting, waited = Value.cast(waiting).bool(), Signal(range(bound + 2))
        counted = Mux(waited == bound + 1, waited, waited + 1)
        late = (waited == bound) & waiting
        if but is not None:
            counted, late = Mux(but, waited, counted), late & ~Value.cast(but).bool()
        self.d.sync += waited.eq(Mux(waiting, counted, 0))
        kind(text, ~late)
        return waited

    def inside(self, component) -> tuple[Module, dict[str, Signal]]:
        """Return a component's module and the signals that it drives, by name: for what induction
        has to know.
        """
        m = component.elaborate(None)
        component._MustUse__used = True  # by way of its module
        m._flush()
        named: dict[str, Signal] = {}
        for statements in m._statements.values():
            for statement in statements:
                for signal in statement._lhs_signals():
                    named.setdefault(signal.name, signal)
        return m, named

    def build(self) -> None:
        """Join checks, assumptions and covers; once, when all are stated."""
        if self._built:
            return
        self._built = True
        if not self.checks or not self.covers:
            raise Problem("a bench has checks, and covers that show that they are not empty")
        legal, now = Signal(init=1), Signal()
        self.d.comb += [
            now.eq(legal & Cat(*self.assumptions.values()).all()),
            self.bad.eq(now & ~Cat(*self.checks.values()).all()),
        ]
        self.d.sync += legal.eq(now)
        self.reached = [Signal(name=f"reached{k}") for k in range(len(self.covers))]
        self.d.comb += [
            reached.eq(now & cover)
            for reached, cover in zip(self.reached, self.covers.values(), strict=True)
        ]
        self._legal = now

    def rtlil(self) -> str:
        """The bench as RTLIL: module `top`, output 0 is `bad`, then one for each cover."""
        if self._text:
            return self._text
        self.build()
        self.d.comb += [Assume(self._legal), Assert(~self.bad)]
        ports = {"clk": (self.clock.clk, PortDirection.Input)}
        ports |= {signal.name: (signal, PortDirection.Input) for signal in self.inputs.values()}
        ports |= {BAD: (self.bad, PortDirection.Output)}
        ports |= {signal.name: (signal, PortDirection.Output) for signal in self.reached}
        if len(ports) != 2 + len(self.inputs) + len(self.reached):
            raise Problem("two inputs have the same name for the tools")
        self._text = rtlil.convert(self.m, name="top", ports=ports, emit_src=False)
        return self._text
