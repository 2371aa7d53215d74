"""The engine's registers and memory ports."""

from enum import IntFlag

from ..shell import Counter, EngineRegister, Legal, RegisterMap, VaultValue, address
from .boundary import Frames
from .config import OmapConfig
from .errors import MapError

#: ports to the host's memory, those of a map that keeps its state, and to HBM
_HOST, _STATE = ("pages", "messages"), ("log", "snapshot")
_HBM = ("buckets", "records", "frames0", "frames1")
#: bits of the most buckets that a run reads for a snapshot
WALK_BITS = 4

_TO = ", aligned to the bus"
_HANDSHAKE = "1: the frame is fetched; 2: the answer is written"
_FILES = "; 4: of a file of state"
_VAULT = (
    VaultValue("root", 256, "constant for a device"),
    VaultValue("entropy", 256, "fresh at each power-up: no two are the same"),
    VaultValue("generation", 32, "how often keys that clients know were renewed: 24 bits count"),
)


def ports(config: OmapConfig, state: bool = False) -> dict[str, int]:
    """Return the memory ports in their order: what each carries, and the space that it reaches: 0 the host's, those
    behind it the channels of HBM over which ports are dealt, of the position map and records and then of frames. `state`: of a map that keeps its state."""
    many, few = config.access.dealt, config.access.frames_dealt
    hbm = {
        f"{name}.{k}" if count > 1 else name: first + k
        for name, first, count in zip(
            _HBM, (1, 1, 1 + many, 1 + many), (many, many, few, few), strict=True
        )
        for k in range(count)
    }
    return dict.fromkeys(_HOST, 0) | hbm | dict.fromkeys(_STATE if state else (), 0)


def port_bytes(config: OmapConfig, state: bool = False) -> tuple[int, ...]:
    """Return the bytes of a bus word of each port."""
    spaces = ports(config, state).values()
    return tuple(config.bus_bytes if space else config.host_bus_bytes for space in spaces)


class Handshake(IntFlag):
    """What a run does beside its operations. TAKE: it fetches a frame that opens a session first; COLLECT:
    it writes the answer at last. FILE: operations are records, the frame has their file's head, and the
    answer is the head of this device's log, which begins (`models.omap.kept_device`)."""

    TAKE = 1
    COLLECT = 2
    FILE = 4


def register_map(config: OmapConfig, design: int = 0, state: bool = False) -> RegisterMap:
    """Return the registers of a map (`hdl.omap.engine`). `state`: of one that keeps its state."""
    frames, bus = Frames.of(config), config.host_bus_bytes
    opening, welcome = frames.opening_beats * bus, frames.welcome_beats * bus
    each = [("count", frames.size)]
    #: bytes that a run writes are nobody else's
    before = ["requests", "responses", "opening", "welcome"]
    interval = "cycles from one request's arrival to the next one's"
    registers = [
        address("requests", 40, f"the first request's frame{_TO}", bus, each=each),
        address("responses", 40, f"where answers go{_TO}", bus, 0, each, before[:1]),
        address("opening", 40, f"a frame that opens a session{_TO}", bus, opening, (), before[1:2]),
        address("welcome", 40, f"where its answer goes{_TO}", bus, welcome, (), before[:3]),
        EngineRegister("handshake", 2 + state, _HANDSHAKE + _FILES * state, legal=Legal()),
        address("pages", 40, f"the first page{_TO}", bus, config.host_bytes, (), before),
        EngineRegister("count", 32, "how many requests", legal=Legal()),
        EngineRegister("interval", 32, interval, legal=Legal()),
    ]
    if state:
        what, end = "buckets that a snapshot goes on through", frames.size  # its last record
        each, before = [*each, ("walk", config.bucket_slots * end)], [*before, "pages", "log"]
        registers += [
            address("log", 40, f"where records go{_TO}", bus, end, each, before[:-1]),
            address("snapshot", 40, f"where a snapshot's go{_TO}", bus, end, each, before),
            EngineRegister("walk", WALK_BITS, what, legal=Legal()),
        ]
    counters = [
        Counter("operations", "requests that were answered"),
        Counter("pages", "pages that were opened"),
        Counter("conflicts", "cycles in which a page waited for its last write", progress=False),
        Counter("scanned", "bus words of HBM that were cleared", step_bits=2),
        Counter("waits", "cycles at the end of a run in which a handshake was under way"),
    ]
    return RegisterMap(registers, counters, design=design, errors=(MapError,), vault=_VAULT)
