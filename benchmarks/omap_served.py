"""PUTs and GETs through an oblivious map's server, whose device is the native one, and as many equal messages through an
echo server that opens and seals them with `cryptography` one by one, behind the same TLS.
"""

import asyncio
import multiprocessing
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from common import Options, Section, machine, main, markdown
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from omap import _plan

from penstock.host.omap.client import AsyncMap
from penstock.host.omap.frames import Messages
from penstock.models.omap.messages import Operation

_CORE, _NONCE = AESGCM(bytes(32)), bytes(12)
_MAPS = "import penstock as ps\n\nbox = ps.ObliviousMap(value=ps.bytes(8), capacity=1 << 14)\n"
_TLS = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out pem -subj /CN=localhost -addext subjectAltName=DNS:localhost"
_SERVE = "serve maps.py --keys keys --port 0 --device native --certificate pem --private-key key"


def _echo(told, folder, ask, tell):
    async def answer(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            while text := _CORE.decrypt(_NONCE, await reader.readexactly(ask), None):
                writer.write(_CORE.encrypt(_NONCE, text.ljust(tell - 16), None))

    async def serve():
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(folder / "pem", folder / "key")
        server = await asyncio.start_server(answer, "localhost", 0, ssl=tls)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _both(port, echo, folder, sizes, count, singles):
    tls = ssl.create_default_context(cafile=str(folder / "pem"))
    reader, writer = await asyncio.open_connection("localhost", echo, ssl=tls)

    async def echoed(many):
        texts = (_CORE.encrypt(_NONCE, bytes(sizes[0] - 16), None) for _ in range(many))
        writer.write(b"".join(texts))
        for _ in range(many):
            _CORE.decrypt(_NONCE, await reader.readexactly(sizes[1]), None)

    async def timed(work):
        begin = perf_counter()
        await work
        return perf_counter() - begin

    names = [folder / "keys" / f"{name}.json" for name in ("map", "writer")]
    async with await AsyncMap.connect("localhost", port, names[0], role=names[1], tls=tls) as box:
        puts = [(Operation.PUT, key, bytes(8)) for key in range(count)]
        made = [(await timed(box.batch(puts)), await timed(echoed(count))) for _ in range(5)]
        each = [(await timed(box.get(k)), await timed(echoed(1))) for k in range(singles)]
    writer.close()
    return [[median(times) for times in zip(*pairs, strict=True)] for pairs in (made, each)]


def served(options: Options) -> str:
    """A batch of PUTs, and GETs alone."""
    count, singles = (200, 20) if options.quick else (10_000, 1000)
    with TemporaryDirectory() as name:
        folder, penstock = Path(name), [sys.executable, "-m", "penstock"]
        (folder / "maps.py").write_text(_MAPS)
        for command in (_TLS.split(), [*penstock, *"keys maps.py --out keys".split()]):
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
        (ours, theirs), messages = multiprocessing.Pipe(), Messages(_plan(1 << 14).plan)
        sizes = messages.request_bytes, messages.answer_bytes
        echo = multiprocessing.Process(target=_echo, args=(theirs, folder, *sizes), daemon=True)
        serve = [*penstock, *_SERVE.split()]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
            echo.start()
            port = int(server.stdout.readline().split()[2].rpartition(":")[2])
            work = _both(port, ours.recv(), folder, sizes, count, singles)
            (ours, theirs), (get, one) = asyncio.run(work)
            server.terminate(), echo.terminate()
    rows = [("map", f"{count / ours:,.0f}", f"{get * 1e6:,.0f}")]
    rows.append(("echo", f"{count / theirs:,.0f}", f"{one * 1e6:,.0f}"))
    rows.append(("map ÷ echo", f"{theirs / ours:.2f}", f"{get / one:.2f}"))
    head = "server", f"{count:,} in a batch, a second", "one, median µs"
    return f"{markdown(head, rows)}\n\n{machine()}"


SECTIONS = [Section("omap-served", True, served)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
