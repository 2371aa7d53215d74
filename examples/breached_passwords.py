"""Has this password leaked? A map of leaked ones behind a server that does not learn which one is asked for.

`python examples/breached_passwords.py [WORDS]` serves the hashes of so many English words (`pip install wordfreq`; 20,000 where nothing is said),
asks for passwords in three ways, and prints what a lookup shows to the server, moves over the network and takes: the map (golden device), a
range of hashes that begin alike (k-anonymity, five hexadecimal digits), a plain table. All three are on this machine.
"""

import hashlib
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from socket import create_connection
from statistics import mean, median
from time import perf_counter

import penstock as ps
from penstock.host.omap.client import connect

MOST, LOOKUPS = 1 << 15, 40
leaked = ps.ObliviousMap(key=ps.bytes, value=ps.bytes(8), capacity=MOST)


def digest(password):
    return hashlib.sha1(password.encode()).hexdigest().upper()


def key(password):
    """The map's key: all 20 bytes of the hash."""
    return bytes.fromhex(digest(password))


@contextmanager
def served(kernel, folder):
    """The server of the map that the file `kernel` declares, with keys in `folder`: its port, and what connects to one."""
    program, keys = [sys.executable, "-m", "penstock"], Path(folder, "keys")
    subprocess.run([*program, "keys", kernel, "--out", keys], check=True, stdout=subprocess.DEVNULL)
    command = [*program, "serve", kernel, "--keys", keys, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            port = int(re.match(r"serving on 127\.0\.0\.1:(\d+)", server.stdout.readline())[1])
            yield (
                port,
                lambda port, role=None: connect(
                    "127.0.0.1", port, keys / "map.json", role=role and keys / role
                ),
            )
        finally:
            server.terminate()


@contextmanager
def listening(handle, kind=socketserver.StreamRequestHandler):
    """A server on a port of this machine; `handle` takes each connection."""
    with socketserver.ThreadingTCPServer(
        ("127.0.0.1", 0), type("Handler", (kind,), {"handle": handle})
    ) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@contextmanager
def counted(port):
    """A relay to `port`, and the bytes that passed it."""
    passed = [0]

    def pump(source, target):
        with suppress(OSError):  # the other direction has ended
            while data := source.recv(1 << 16):
                passed[0] += len(data)
                target.sendall(data)

    def handle(relay):
        with create_connection(("127.0.0.1", port)) as beyond:
            threading.Thread(target=pump, args=(beyond, relay.request), daemon=True).start()
            pump(relay.request, beyond)

    with listening(handle, socketserver.BaseRequestHandler) as own:
        yield own, passed


@contextmanager
def asking(port):
    """A connection to a plain server: a line asks, and lines up to an empty one answer."""
    with (
        create_connection(("127.0.0.1", port)) as server,
        server.makefile("rw", encoding="ascii") as file,
    ):

        def ask(line):
            file.write(line + "\n")
            file.flush()
            return [answer.strip() for answer in iter(file.readline, "\n")]

        yield ask


def measured(look_up, port, passwords):
    """What each lookup found; its median seconds, and its bytes through a relay."""
    taken, found = [], []
    with look_up(port) as one:
        for password in passwords:
            begin = perf_counter()
            found.append(one(password))
            taken.append(perf_counter() - begin)
    with counted(port) as (relay, passed), look_up(relay) as one:
        one(passwords[0])
        before = passed[0]
        for password in passwords[1:]:
            one(password)
        moved = (passed[0] - before) / (len(passwords) - 1)
    return found, median(taken), moved


@contextmanager
def by_map(reader, port):
    with reader(port) as box:

        def look_up(password):
            value = box.get(key(password))
            return value and int.from_bytes(value, "little")

        yield look_up


@contextmanager
def by_range(port):
    with asking(port) as ask:

        def look_up(password):
            alike = dict(line.split(":") for line in ask(digest(password)[:5]))
            return alike.get(digest(password)[5:])

        yield look_up


@contextmanager
def by_table(port):
    with asking(port) as ask:
        yield lambda password: next(iter(ask(digest(password))), None)


def answering(answers):
    """A plain server of lists by text."""

    def handle(self):
        for line in self.rfile:
            found = [*answers.get(line.decode().strip(), ()), ""]
            self.wfile.write("".join(f"{each}\n" for each in found).encode())

    return listening(handle)


def main(words=20_000, lookups=LOOKUPS):
    from wordfreq import top_n_list

    known = top_n_list("en", words)
    count = {word: place for place, word in enumerate(known, 1)}
    ranges, table = {}, {}
    for word, place in count.items():
        table[digest(word)] = [place]
        ranges.setdefault(digest(word)[:5], []).append(f"{digest(word)[5:]}:{place}")
    passwords = [
        known[k * words // lookups] if k % 2 else f"{known[k]}-7Kq!" for k in range(lookups)
    ]
    expected = [count.get(password) for password in passwords]
    alike = mean(len(found) for found in ranges.values())
    with (
        tempfile.TemporaryDirectory() as folder,
        served(__file__, folder) as (port, reader),
        answering(ranges) as of_ranges,
        answering(table) as of_table,
    ):
        with reader(port, "writer.json") as box:
            box.load({key(word): place.to_bytes(8, "little") for word, place in count.items()})
        ways = {
            "oblivious map": (partial(by_map, reader), port, "that a lookup was made, and when"),
            "range of hashes": (
                by_range,
                of_ranges,
                f"5 digits, which {alike:.1f} of the passwords share",
            ),
            "plain table": (by_table, of_table, "the hash"),
        }
        print(f"{words:,} passwords, {lookups} lookups, half of them of leaked ones")
        right = True
        for name, (look_up, at, shown) in ways.items():
            found, seconds, moved = measured(look_up, at, passwords)
            right = right and [value and int(value) for value in found] == expected
            print(
                f"{name:16} shows {shown}; moves {moved:,.0f} bytes; takes {1e3 * seconds:.2f} ms"
            )
    return right


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) > 1 or not all(
        each.isdecimal() and LOOKUPS <= int(each) <= MOST for each in given
    ):
        sys.exit(f"WORDS is a number from {LOOKUPS} to {MOST:,}")
    print("all three find the same:", main(*map(int, given)))
