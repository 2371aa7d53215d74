"""AXI4 and AXI4-Lite as wiring signatures, seen from the manager.

The subset of AXI4 that engines speak: one identifier (0), INCR bursts of full bus words. Member names are the protocol's, lower
case, so that a flattened port reads `m0_axi_araddr`. AMBA AXI and ACE protocol specification, ARM IHI 0022, chapters A2 and B1.
"""

from enum import IntEnum
from typing import Any, Protocol

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature


class Response(IntEnum):
    """BRESP and RRESP."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class AXI4(wiring.Signature):
    """A memory port.

    * `address_width`: bits of a byte address, 12 to 64.
    * `data_bytes`: bytes of a bus word: a power of two, 4 to 128.
    * `id_width`: bits of the identifiers.
    * `read`, `write`: which directions the port has.
    """

    def __init__(self, *, address_width=40, data_bytes, id_width=1, read=True, write=True):
        if not isinstance(data_bytes, int) or data_bytes not in (4, 8, 16, 32, 64, 128):
            raise ValueError(f"data_bytes must be 4, 8, 16, 32, 64 or 128, not {data_bytes!r}")
        if not isinstance(address_width, int) or not 12 <= address_width <= 64:
            raise ValueError(
                f"address_width must be an integer from 12 to 64, not {address_width!r}"
            )
        if not read and not write:
            raise ValueError("a port must read, write, or both")
        self.address_width = address_width
        self.data_bytes = data_bytes
        self.id_width = id_width
        self.read = read
        self.write = write

        def address(channel):
            return {
                f"{channel}id": Out(id_width),
                f"{channel}addr": Out(address_width),
                f"{channel}len": Out(8),
                f"{channel}size": Out(3),
                f"{channel}burst": Out(2),
                f"{channel}valid": Out(1),
                f"{channel}ready": In(1),
            }

        members: dict[str, Any] = {}
        if write:
            members |= address("aw")
            members |= {
                "wdata": Out(8 * data_bytes),
                "wstrb": Out(data_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_width),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        if read:
            members |= address("ar")
            members |= {
                "rid": In(id_width),
                "rdata": In(8 * data_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        super().__init__(members)

    def __eq__(self, other):
        return isinstance(other, AXI4) and self.__dict__ == other.__dict__

    def __repr__(self):
        return (
            f"AXI4(address_width={self.address_width}, data_bytes={self.data_bytes}, id_width={self.id_width}, "
            f"read={self.read}, write={self.write})"
        )


class AXI4Lite(wiring.Signature):
    """A control port of 32-bit registers."""

    def __init__(self, *, address_width):
        self.address_width = address_width
        super().__init__(
            {
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class Manager(Protocol):
    """A bus that drives channels of a memory port: `signature` names them with their directions, and it has an attribute for each. `BurstReader.bus`
    and `BurstWriter.bus` are such; `models.memory.Reader` and `Writer` count their cycles."""

    signature: Signature


def shared_by(m: Module, port: Manager, *managers: Manager) -> None:
    """Give each manager its own channels of a memory port, in module `m`: a reader's bus those of reads, a writer's those of writes."""
    for manager in managers:
        for name, member in manager.signature.members.items():
            inner, outer = getattr(manager, name), getattr(port, name)
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)


#: inputs of a manager that say that something of its own happened
_OWN = frozenset({"awready", "wready", "bvalid", "arready", "rvalid"})


def lent_to(m, port, manager, *guests):
    """Give the channels of a memory port to `manager`, in module `m`; while a guest's signal is high, those that the guest has belong to the guest.

    `guests`: pairs of a bus and its signal. A port changes hands only when nothing of the channels is under way.
    """
    for name, member in manager.signature.members.items():
        inner, outer = getattr(manager, name), getattr(port, name)
        here = [(getattr(bus, name), lent) for bus, lent in guests if hasattr(bus, name)]
        if member.flow is Out:
            for guest, lent in here:
                inner = Mux(lent, guest, inner)
            m.d.comb += outer.eq(inner)
            continue
        free = outer
        for guest, lent in here:
            m.d.comb += guest.eq(outer & lent if name in _OWN else outer)
            free = free & ~lent if name in _OWN else free
        m.d.comb += inner.eq(free)


def flat(prefix, signature):
    """The members of a signature under names `<prefix>_<member>`, for a top whose ports keep the protocol's names."""
    return {f"{prefix}_{name}": member for name, member in signature.members.items()}
