"""The engine's registers and memory ports."""

from __future__ import annotations

from enum import IntFlag

from ..shell import Counter, EngineRegister, RegisterMap, VaultValue
from .config import OmapConfig
from .errors import MapError
from .messages import Keys

__all__ = [
    "PORTS",
    "Handshake",
    "key_registers",
    "port_bytes",
    "register_map",
    "session_registers",
]

#: the memory ports in their order: what each carries, and the space that it reaches (0 host, 1 HBM)
PORTS = {"pages": 0, "messages": 0, "buckets": 1, "records": 1, "frames0": 1, "frames1": 1}

_VAULT = (
    VaultValue("root", 256, "constant for a device"),
    VaultValue("entropy", 256, "fresh at each power-up: no two are the same"),
)
_KEYS = {
    "page": "pages of the host",
    "session": "requests and responses",
    "hash": "the position map's hash",
    "pairs": "the generator of pairs",
}


def port_bytes(config: OmapConfig) -> tuple[int, ...]:
    """Return the bytes of a bus word of each port."""
    return tuple(config.bus_bytes if hbm else config.host_bus_bytes for hbm in PORTS.values())


def key_registers(keys: Keys, *, zeroed: bool = False, hbm: int = 0) -> dict[str, int]:
    """Return the registers of the set-up: they are written once, before the first start. `zeroed`:
    HBM is known to be zero, and the first start does not clear it; `hbm`: where the map lies there."""
    values: dict[str, int] = {"zeroed": int(zeroed), "hbm": hbm}
    for name in _KEYS:
        key = getattr(keys, name)
        values[f"{name}_key_low"] = key & (1 << 64) - 1
        values[f"{name}_key_high"] = key >> 64
    return values


def register_map(design: int) -> RegisterMap:
    """Return the registers of a map."""
    registers = [
        EngineRegister("requests", 40, "the first sealed request, aligned to the bus"),
        EngineRegister("responses", 40, "where sealed responses go, aligned to the bus"),
        EngineRegister("pages", 40, "the first page, aligned to the bus"),
        EngineRegister("hbm", 40, "where the map lies in HBM, aligned to 4096", once=True),
        EngineRegister("count", 32, "how many requests"),
        EngineRegister("interval", 32, "cycles from one request's arrival to the next one's"),
    ]
    for name, what in _KEYS.items():
        for half in ("low", "high"):
            text = f"key for {what}, {half} 64 bits"
            registers.append(EngineRegister(f"{name}_key_{half}", 64, text, secret=True, once=True))
    text = "1: HBM is zero where the map lies, and need not be cleared by the first start"
    registers.append(EngineRegister("zeroed", 1, text, secret=True, once=True))
    counters = [
        Counter("operations", "requests that were answered"),
        Counter("pages", "pages that were opened"),
        Counter("conflicts", "cycles in which a page waited for its last write", progress=False),
        Counter("scanned", "bus words of HBM that were cleared", step_bits=2),
    ]
    return RegisterMap(registers, counters, design=design, errors=(MapError,))


class Handshake(IntFlag):
    """What a run does beside its operations. TAKE: it fetches a frame that opens a session first; COLLECT:
    it writes the answer at last."""

    TAKE = 1
    COLLECT = 2


def session_registers(design: int) -> RegisterMap:
    """Return the registers of a map behind its boundary (`hdl.omap.session_engine`)."""
    registers = [
        EngineRegister("requests", 40, "the first request's frame, aligned to the bus"),
        EngineRegister("responses", 40, "where answers go, aligned to the bus"),
        EngineRegister("opening", 40, "a frame that opens a session, aligned to the bus"),
        EngineRegister("welcome", 40, "where its answer goes, aligned to the bus"),
        EngineRegister("handshake", 2, "1: the frame is fetched; 2: the answer is written"),
        EngineRegister("pages", 40, "the first page, aligned to the bus"),
        EngineRegister("count", 32, "how many requests"),
        EngineRegister("interval", 32, "cycles from one request's arrival to the next one's"),
    ]
    counters = [
        Counter("operations", "requests that were answered"),
        Counter("pages", "pages that were opened"),
        Counter("conflicts", "cycles in which a page waited for its last write", progress=False),
        Counter("scanned", "bus words of HBM that were cleared", step_bits=2),
        Counter("waits", "cycles at the end of a run in which a handshake was under way"),
    ]
    return RegisterMap(registers, counters, design=design, errors=(MapError,), vault=_VAULT)
