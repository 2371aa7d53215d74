"""Images of registers of every engine: each start ends with golden's result, or with a named code; none runs for ever, none is wrong without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from runpy import run_path

import pytest

from penstock.models.shell import EngineRegister, Legal, RegisterMap
from penstock.sim.native.machine import NativeMachine
from testbench.register_images import CASES, Case, case, image

Made = Callable[[str], Case]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, cases = tmp_path_factory.mktemp("images"), dict[str, Case]()
    return lambda kind: (
        cases.setdefault(kind, case(kind, folder)) if kind not in cases else cases[kind]
    )


def held(known: RegisterMap) -> None:
    """Every register says with which values a run may start, also where that is any."""
    silent = [register.name for register in known.engine if register.legal is None]
    assert not silent, f"no legal values are stated of {', '.join(silent)}"


@pytest.mark.parametrize("kind", CASES)
def test_golden(made: Made, kind: str) -> None:
    """The map's judgement is that of the documents, of 20 images of each engine."""
    judged(made(kind), 20)


@pytest.mark.long
@pytest.mark.parametrize("kind", CASES)
def test_golden_of_many(made: Made, kind: str) -> None:
    judged(made(kind), 1000)


def test_the_page_has_the_table_of_the_maps() -> None:
    """The page is what `legal_values.py` writes. Planted: a value of it is another one."""
    page = Path(__file__).resolve().parents[2] / "docs/reference/registers.md"
    text = page.read_text(encoding="utf-8")
    table = run_path(str(Path(__file__).with_name("legal_values.py")))["page"]
    assert table(text) == text
    planted = text.replace("0xfffffffff8", "0xfffffffff0")
    assert planted != text and table(planted) == text


def judged(one: Case, count: int) -> None:
    known, random, refused = one.design.registers, Random(52), 0
    held(known)
    assert known.illegal(one.registers) is None
    for _ in range(count):
        values = image(one, random)
        fault = known.illegal(values)
        assert (None if fault is None else fault.item) == one.illegal(values), values
        refused += fault is not None
        if fault is not None:
            assert fault.code.name == "REGISTER" and "may be" in fault.meaning
    assert count // 5 < refused < count


def on_hardware(one: Case, count: int) -> None:
    """Images of legal and of other values on RTL."""
    random, known = Random(52), one.design.registers
    design, workload = one.design, one.workload
    reached = set[str]()
    for number in range(count):
        values = image(one, random, tame=True)
        while number % 2 and known.illegal(values):
            values = image(one, random, tame=True)
        due = set().union(*(one.codes(name, value) for name, value in values.items()))
        memory = workload.memory_bytes()
        with design.machine("rtl", memory, None, vault=workload.vault) as machine:
            assert isinstance(machine, NativeMachine)
            ended, result = one.driven(machine, values)
        changed = {name: hex(v) for name, v in values.items() if v != one.registers[name]}
        assert ended is not None
        if (place := one.illegal(values)) is not None:
            due = {"REGISTER"}
            assert ended.error is not None and ended.error.item == place, changed
            assert (ended.cycles, ended.bytes_read, ended.bytes_written) == (0, 0, 0)
        if due:
            assert ended.error is not None and ended.error.code.name in due, (changed, ended.error)
            reached.add(ended.error.code.name)
            continue
        golden = one.golden(values)
        assert result is not None and golden.codes is not None, (changed, ended.error)
        for name, codes in golden.codes.items():
            assert (codes == result.codes[name]).all(), changed
        reached.add("result")
    assert "REGISTER" in reached and len(reached) > 1


def test_on_hardware(made: Made) -> None:
    on_hardware(made("training"), 4)


@pytest.mark.long
@pytest.mark.parametrize("kind", CASES)
def test_many_on_hardware(made: Made, kind: str) -> None:
    on_hardware(made(kind), 12)


def test_what_no_rule_is_stated_of_is_found(made: Made) -> None:
    """Planted: a register without a rule, and rules that say too little."""
    known = made("training").design.registers
    without = [EngineRegister(r.name, r.bits, r.doc, r.reset) for r in known.engine]
    with pytest.raises(AssertionError, match="no legal values are stated of boot_address"):
        held(RegisterMap(without, known.counters))
    lax = [EngineRegister(r.name, r.bits, r.doc, r.reset, legal=Legal()) for r in known.engine]
    weak = RegisterMap(lax, known.counters)
    assert all(register.name for register in weak.engine) and len(fields(Legal)) == 6
    random, one = Random(52), made("training")
    images = [image(one, random) for _ in range(50)]
    assert any((weak.illegal(v) is None) != (one.illegal(v) is None) for v in images)
