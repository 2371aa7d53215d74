"""How fast the host's end of UDP is beside a bare loop of `sendto` of the same datagrams, on loopback.

`python benchmarks/udp_host.py [MB]`. The peer, a process of its own, reads all and answers as a device does when nothing is
lost; it looks at no CRC. Each of five turns times all, in alternating order: memory that is written, pages that are pushed,
the loop; the ratios are those of the medians.
"""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import struct
import sys
from collections.abc import Callable
from time import perf_counter

from penstock.host.device.udp import Udp
from penstock.models.link.device import Identity
from penstock.models.link.envelope import ASK, LONGEST, OPENING, WINDOW, Answer
from penstock.models.link.frames import Space

SIZE = 64 << 20
_HEAD = struct.Struct("<IIBBHQ")


def peer(line: socket.socket) -> None:
    """Answer until the process is ended."""
    first, session = WINDOW, 0
    room = bytearray(2048)
    identity = Identity(8, SIZE, 10**8, ring=WINDOW << 10).encode()
    while True:
        _, host = line.recvfrom_into(room)
        if not room[8] & ASK and room[8] & ~ASK != OPENING:
            continue
        number, sequence, kind, _, _, _ = _HEAD.unpack_from(room)
        data = identity if kind & ~ASK == OPENING else b""
        if data:
            session, first = number, first + WINDOW
        elif number == session:
            first = sequence + 1
        line.sendto(Answer(number, sequence, kind, 0, 0, first, data).encode(), host)


def bare(port: int, content: bytes) -> float:
    """Return the seconds that a loop of `sendto` takes for the bytes of these datagrams."""
    datagrams = [
        bytes(_HEAD.size + 4) + content[at : at + LONGEST] for at in range(0, len(content), LONGEST)
    ]
    with socket.socket(type=socket.SOCK_DGRAM) as line:
        place, begin = ("127.0.0.1", port), perf_counter()
        for datagram in datagrams:
            line.sendto(datagram, place)
        return perf_counter() - begin


def push(transport: Udp, content: bytes) -> None:
    """Push the bytes as pages into a ring that is never full."""
    view = memoryview(content)
    pieces = ((0, at, view[at : at + LONGEST]) for at in range(0, len(content), LONGEST))
    transport.push(pieces)


def measured(content: bytes, turns: int = 5) -> tuple[dict[str, list[float]], int]:
    """Return the seconds of each way, and how many datagrams were sent again."""
    with socket.socket(type=socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        line.bind(("127.0.0.1", 0))
        port = line.getsockname()[1]
        process = multiprocessing.get_context("fork").Process(
            target=peer, args=(line,), daemon=True
        )
        process.start()
        try:
            transport = Udp(f"127.0.0.1:{port}", 2.0)
            ways: dict[str, Callable[[], object]] = {
                "write": lambda: transport.write(Space.MEMORY, 0, content),
                "sendto": lambda: bare(port, content),
                "push": lambda: push(transport, content),
            }
            took: dict[str, list[float]] = {name: [] for name in ways}
            for name, do in list(ways.items()) * turns:
                begin = perf_counter()
                do()
                took[name].append(perf_counter() - begin)
            again = transport.statistics.again
            transport.close()
        finally:
            process.kill()
            process.join()
    return took, again


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else 32) << 20
    took, again = measured(bytes(range(256)) * (size >> 8))
    rates = {name: size / statistics.median(seconds) / 1e6 for name, seconds in took.items()}
    for name in ("write", "push"):
        seconds, ratio = took[name], rates[name] / rates["sendto"]
        extremes = f"extremes {min(seconds):.3f} to {max(seconds):.3f} s"
        print(f"{name} {rates[name]:.0f} MB/s, {ratio:.2f} of sendto's; {extremes}")
    print(f"sendto {rates['sendto']:.0f} MB/s; {again} datagrams sent again")


if __name__ == "__main__":
    main()
