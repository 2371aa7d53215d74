"""How fast the host's end of UDP is beside a bare loop of `sendto` of the same datagrams, on loopback.

`python benchmarks/udp_host.py [MB]`. The peer, a process of its own, reads all and answers as a device does when nothing is
lost; it looks at no CRC. Each of five turns times both, in alternating order; the ratio is that of the medians.
"""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import struct
import sys
from time import perf_counter

from penstock.host.device import Udp
from penstock.models.link import Identity, Space
from penstock.models.link.envelope import ASK, LONGEST, OPENING, WINDOW, Answer

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


def measured(content: bytes, turns: int = 5) -> tuple[list[float], list[float], int]:
    """Return the seconds of our transfers, those of the loop, and how many datagrams were sent again."""
    with socket.socket(type=socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        line.bind(("127.0.0.1", 0))
        port = line.getsockname()[1]
        process = multiprocessing.get_context("fork").Process(
            target=peer, args=(line,), daemon=True
        )
        process.start()
        ours, bares = [], []
        try:
            transport = Udp(f"127.0.0.1:{port}", 2.0)
            for turn in range(2 * turns):
                if turn % 2:
                    bares.append(bare(port, content))
                    continue
                begin = perf_counter()
                transport.write(Space.MEMORY, 0, content)
                ours.append(perf_counter() - begin)
            again = transport.statistics.again
            transport.close()
        finally:
            process.kill()
            process.join()
    return ours, bares, again


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else 32) << 20
    ours, bares, again = measured(bytes(range(256)) * (size >> 8))
    rates = [size / statistics.median(seconds) / 1e6 for seconds in (ours, bares)]
    print(f"ours {rates[0]:.0f} MB/s, sendto {rates[1]:.0f} MB/s, ratio {rates[0] / rates[1]:.2f}")
    print(f"{again} datagrams sent again; extremes of ours {min(ours):.3f} to {max(ours):.3f} s")


if __name__ == "__main__":
    main()
