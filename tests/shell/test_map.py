"""models/shell.py: placement, names, the way through JSON."""

from __future__ import annotations

import pytest

from penstock.models.errors import ErrorCode, ErrorEntry
from penstock.models.shell import CONTROL, Counter, EngineRegister, Monitor, RegisterMap
from penstock.models.strider.errors import PageError

MAP = RegisterMap(
    [EngineRegister("narrow", 5, reset=3), EngineRegister("wide", 40), EngineRegister("last", 1)],
    [Counter("tuples", step_bits=3)],
    [Monitor("pages", 4)],
    design=0xDEADBEEF,
)


def test_placement():
    assert [(r.name, r.offset, r.bits, r.access) for r in MAP.registers[len(CONTROL) :]] == [
        ("count_tuples", 0x40, 64, "ro"),
        ("narrow", 0x48, 32, "rw"),
        ("wide", 0x50, 64, "rw"),
        ("last", 0x58, 32, "rw"),
        ("monitor_pages", 0x5C, 32, "ro"),
    ]
    assert MAP.address_width == 12
    assert MAP["wide"].offset == 0x50
    with pytest.raises(KeyError):
        MAP["none"]
    covered = [place for r in MAP.registers for place in range(r.offset, r.offset + r.bits // 8)]
    assert len(covered) == len(set(covered))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RegisterMap([EngineRegister("a b")]), "register name 'a b' is not an identifier"),
        (lambda: RegisterMap([EngineRegister("status")]), "register name 'status' is used twice"),
        (
            lambda: RegisterMap([EngineRegister("a", 65)]),
            "register 'a': bits must be 1 to 64, not 65",
        ),
        (
            lambda: RegisterMap([EngineRegister("a", 4, reset=16)]),
            "register 'a': reset 16 does not fit in 4 bits",
        ),
        (
            lambda: RegisterMap(counters=[Counter("a", step_bits=0)]),
            "counter 'a': step_bits must be 1 to 32, not 0",
        ),
        (
            lambda: RegisterMap(monitors=[Monitor("a", 17)]),
            "monitor 'a': level_bits must be 0 to 16, not 17",
        ),
        (lambda: RegisterMap(design=1 << 32), "design must be 32 bits, not 0x100000000"),
    ],
)
def test_bad_maps(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == message


def test_error_codes():
    twice = [ErrorEntry(70, "A"), ErrorEntry(70, "B")]
    for entries in (twice, [ErrorEntry(int(ErrorCode.WATCHDOG), "A")]):
        with pytest.raises(ValueError, match="is used twice"):
            RegisterMap(errors=entries)
    with pytest.raises(ValueError, match="must be 1 to 255"):
        RegisterMap(errors=[ErrorEntry(256, "A")])
    made = RegisterMap(errors=(PageError,))
    assert made.error(36) == PageError.TUPLE_NULL and made.error(36).hint
    assert made.error(64) is ErrorCode.BUS_READ
    with pytest.raises(ValueError):
        made.error(80)
