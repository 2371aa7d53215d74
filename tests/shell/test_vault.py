"""Values of the vault: they reach the engine, whatever the host does, in both simulators."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from penstock.hdl.memory import AXI4
from penstock.hdl.shell import Shell, engine_members
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.shell import Counter, EngineRegister, RegisterMap, VaultValue
from penstock.sim.native import PortSpec, build
from penstock.sim.native.machine import NativeMachine
from penstock.sim.python import PythonMachine

_SIZES = {"small": 32, "middle": 64, "large": 256}
_MAP = RegisterMap(
    [EngineRegister("word", 8, "which word is shown")],
    [Counter("shown", "that word", step_bits=32)],
    vault=[VaultValue(name, bits) for name, bits in _SIZES.items()],
)
_PORTS = (PortSpec("m0_axi", 4),)


class _Engine(wiring.Component):
    """Shows a word of the vault in a counter, once the vault is valid."""

    register_map = _MAP

    def __init__(self) -> None:
        super().__init__(engine_members(_MAP, [AXI4(data_bytes=4)]))

    def elaborate(self, platform):
        m = Module()
        running = Signal()
        words = Cat(self.vault[name] for name in _SIZES)
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(running & self.vault.valid):
            m.d.comb += [
                self.done.eq(1),
                self.counters.shown.eq(words.word_select(self.registers.word, 32)),
            ]
            m.d.sync += running.eq(0)
        return m


@pytest.fixture(scope="module")
def library():
    return build(
        to_verilog(Shell(_Engine(), _MAP)), ports=_PORTS, register_map=_MAP, optimise="-O0"
    )


def _drawn(seed):
    draw = random.Random(seed)
    return {name: draw.getrandbits(bits) for name, bits in _SIZES.items()}


@pytest.mark.parametrize("simulator", ["native", "python"])
def test_each_power_up_has_its_values(library, simulator):
    opened = {
        "native": lambda vault: NativeMachine(library, vault=vault),
        "python": lambda vault: PythonMachine(_Engine(), _PORTS, vault=vault),
    }[simulator]
    for seed in range(2):
        values = _drawn(seed)
        with opened(values) as machine:
            for turn in range(2):
                for k, word in enumerate(_MAP.vault_words(values)):
                    assert machine.run({"word": k}).counters["shown"] == word
                if simulator == "native" and not turn:
                    machine.session.stop()  # a soft reset


def test_no_register_is_the_vaults(library):
    assert {r.name for r in _MAP.registers}.isdisjoint(_SIZES)
    assert _MAP.to_json()["vault"][2]["bits"] == 256
    assert "vault" not in RegisterMap().to_json()


@pytest.mark.parametrize(
    "values", [{}, {"small": 1}, {**_drawn(1), "more": 1}, {**_drawn(1), "small": 1 << 32}]
)
def test_values_that_do_not_fit_are_refused(library, values):
    with pytest.raises(ValueError, match="vault"):
        NativeMachine(library, vault=values)
    with pytest.raises(ValueError, match="vault"):
        PythonMachine(_Engine(), _PORTS, vault=values)


@pytest.mark.parametrize("bits", [1, 31, 0, 33])
def test_values_have_whole_words(bits):
    with pytest.raises(ValueError, match="whole words of 32"):
        RegisterMap(vault=[VaultValue("root", bits)])
