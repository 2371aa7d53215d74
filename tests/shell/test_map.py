"""models/shell.py: placement, names, the way through JSON."""

from __future__ import annotations

import pytest

from penstock.models.errors import ErrorCode, ErrorEntry
from penstock.models.shell import (
    CONTROL,
    Counter,
    EngineRegister,
    Legal,
    Monitor,
    RegisterMap,
    Status,
    address,
)
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
            lambda: RegisterMap([EngineRegister("a", 4, legal=Legal(least=16))]),
            "register 'a': no value of 4 bits is legal",
        ),
        (
            lambda: RegisterMap([EngineRegister("a", legal=Legal(multiple=12))]),
            "register 'a': multiple must be a power of two",
        ),
        (
            lambda: RegisterMap([EngineRegister("a", legal=Legal(apart=("b",)))]),
            "register 'a': there is no register 'b'",
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


def test_legal_values():
    """The first register counts whose value is not legal; bits beyond a width count for its own register alone."""
    known = RegisterMap(
        [
            address("to", 12, "", 8, 16, apart=["of"]),
            address("of", 12, "", 8, 0, [("count", 32)]),
            EngineRegister("count", 4, legal=Legal(least=1)),
            EngineRegister("free", 4, reset=3),
        ]
    )
    good = {"to": 0, "of": 16, "count": 1}
    assert known.illegal(good) is None and known.illegal({**good, "free": 16}).item == 0x4C
    for changed, name in (
        ({"to": 4}, "to"),
        ({"to": 8}, "to"),  # its 16 bytes reach into the others
        ({"to": 48}, None),
        ({"to": 4095 - 16 - 7}, None),
        ({"to": 4096 - 16}, "to"),  # it ends with the last byte
        ({"of": 8}, "to"),
        ({"of": 4096 - 32}, "of"),
        ({"of": 4096 - 64, "count": 2}, "of"),
        ({"of": 4096 - 72, "count": 2}, None),
        ({"count": 0}, "count"),
        ({"count": 17}, "count"),
        ({"count": 17, "to": 4}, "to"),
    ):
        fault = known.illegal({**good, **changed})
        assert (fault and fault.item) == (name and known[name].offset), changed
    fault = known.illegal({**good, "count": 0})
    assert fault.code is ErrorCode.REGISTER and str(fault) == "REGISTER at register 0x48"
    assert fault.meaning == (
        "a register had a value with which no run may start: count is 0x0, and may be 1 to 15"
    )
    reported = known.failure(Status.ERROR, 68, 0, 0, 0x40)
    assert reported == known.illegal({**good, "to": 4})
    assert reported.meaning.endswith("to may be multiples of 8 to 0xfe8, apart from of")
    assert known.to_json()["engine"][1] == {
        "name": "of", "bits": 12, "doc": "", "reset": 0, "least": 0, "multiple": 8,
        "each": (("count", 32),), "most": 0xFF8,
    }  # fmt: skip


def test_bytes_of_several_registers():
    """Those that always lie there, and as many more for each one that registers count."""
    known = RegisterMap(
        [
            address("to", 12, "", 8, 16, [("few", 8), ("many", 64)], ["of"]),
            address("of", 12, "", 8, 32),
            EngineRegister("few", 4, legal=Legal()),
            EngineRegister("many", 4, legal=Legal()),
        ]
    )
    for to, of, few, many, fits in (
        (0, 16, 0, 0, True),
        (0, 16, 1, 0, False),
        (0, 152, 1, 2, True),
        (0, 144, 1, 2, False),
        (4096 - 24, 0, 0, 0, True),
        (4096 - 16, 0, 0, 0, False),
        (4096 - 152, 0, 1, 2, False),
        (4096 - 160, 0, 1, 2, True),
    ):
        fault = known.illegal({"to": to, "of": of, "few": few, "many": many})
        assert (fault is None) == fits, (to, of, few, many)
    assert known.engine[0].range == (
        "multiples of 8 to 0xfe8, with 16 bytes and 8 bytes for each of few and 64 bytes for each of "
        "many below 0x1000, apart from of"
    )
