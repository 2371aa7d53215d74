"""The registers of an export, as its templates see them."""

from collections.abc import Iterator
from typing import Any

from penstock.models.errors import ErrorCode, ErrorEntry
from penstock.models.shell import IDENTITY, VERSION, Register, RegisterMap

#: words of SystemRDL 2.0 (Accellera, annex B and 5.1) that a name may meet
_RDL = frozenset(
    """abstract accesstype addressingtype addrmap alias all bit boolean bothedge compact component componentwidth
    constraint default encode enum external false field fullalign hw inside internal level longint mem na negedge
    nonsticky number onreadtype onwritetype posedge property r rclr ref reg regalign regfile rset ruser rw rw1 signal
    string struct sw this true type unsigned w w1 wclr woclr woset wot wr wset wuser wzc wzs wzt name desc""".split()
)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _field(name: str, high: int, low: int, sw: str, hw: str, **more: Any) -> dict[str, Any]:
    """Return a field as templates take it. `high`, `low`: its bits; `sw`, `hw`: what software and hardware may do, in SystemRDL's words."""
    plain = {"desc": "", "extra": "", "encode": "", "reset": None}
    return {"name": name, "high": high, "low": low, "sw": sw, "hw": hw, **plain, **more}


def _fields(register: Register, registers: RegisterMap) -> list[dict[str, Any]]:
    """Return the fields of a register of this map."""
    engine = {r.name: r for r in registers.engine}
    monitors = {f"monitor_{m.name}": m for m in registers.monitors}
    name = register.name
    constants = {"identity": IDENTITY, "version": VERSION, "design": registers.design}
    if name in constants:
        return [_field("value", 31, 0, "r", "na", reset=f"32'h{constants[name]:08x}")]
    if name in engine:
        one = engine[name]
        return [_field("value", one.bits - 1, 0, "rw", "r", reset=f"{one.bits}'h{one.reset:x}")]
    if name in monitors:
        bits = [_field("valid", 0, 0, "r", "w"), _field("ready", 1, 1, "r", "w")]
        level = monitors[name].level_bits
        return bits + ([_field("level", 15 + level, 16, "r", "w")] if level else [])
    if name == "control":
        pulse = {"extra": "singlepulse", "reset": "1'b0"}
        return [_field("start", 0, 0, "w", "r", **pulse), _field("reset", 1, 1, "w", "r", **pulse)]
    if name == "status":
        names = enumerate(("idle", "busy", "done", "error", "dead"))
        return [_field(bit, k, k, "r", "w") for k, bit in names]
    if name == "interrupt":
        pending = _field("pending", 1, 1, "rw", "w", extra="woclr", reset="1'b0")
        return [_field("enable", 0, 0, "rw", "r", reset="1'b0"), pending]
    if name == "error_code":
        return [_field("code", 7, 0, "r", "w", encode="error_code_e")]
    if register.access == "ro":
        return [_field("value", register.bits - 1, 0, "r", "w")]
    return [_field("value", register.bits - 1, 0, "rw", "r", reset=f"{register.bits}'h0")]


def _errors(registers: RegisterMap) -> Iterator[dict[str, Any]]:
    common = [ErrorEntry.of(code) for code in ErrorCode if code]
    for entry in sorted((*common, *registers.errors), key=int):
        text = _quoted(entry.meaning or entry.name)
        hint = f"; {_quoted(entry.hint)}" if entry.hint else ""
        yield {"name": entry.name, "code": entry.code, "meaning": text, "text": f"{text}{hint}"}


def described(registers: RegisterMap) -> dict[str, Any]:
    """Return what templates see: `registers` in order, `engine` and `counters` among them, `errors`."""
    from penstock.hdl.verilog.names import plain

    legal = {r.name: f"; legal: {r.range}" for r in registers.engine}
    every = [
        {
            "name": register.name,
            "rdl": f"\\{register.name}" if register.name in _RDL else register.name,
            "constant": register.name.upper(),
            "member": plain(register.name),
            "offset": register.offset,
            "bits": register.bits,
            "access": register.access,
            "doc": _quoted(register.doc or register.name.replace("_", " "))
            + legal.get(register.name, ""),
            "fields": _fields(register, registers),
        }
        for register in registers.registers
    ]
    by_name = {register.name: register for register in registers.engine}
    counts = {r.name for r in registers.registers if r.name.startswith("count_")} - by_name.keys()
    return {
        "registers": every,
        "engine": [one | {"rule": by_name[one["name"]]} for one in every if one["name"] in by_name],
        "counters": [register for register in every if register["name"] in counts],
        "errors": list(_errors(registers)),
    }
