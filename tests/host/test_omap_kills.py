"""SIGKILL of a map's server, or of its device, at any time: what is there again when a server starts on the same folder."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time

import pytest

from penstock.host.omap import kept
from penstock.host.omap.client import ConnectionLost, connect
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.kept import KeptMap
from penstock.host.omap.keyfiles import read_device, read_map, write_keys
from penstock.host.omap.process import DeviceProcess, _serve
from penstock.host.omap.server import MapServer
from penstock.host.omap.state import MapState
from penstock.models.omap.boundary import Frames
from penstock.models.omap.errors import MapStopped
from testbench.omap import config
from testbench.session_clients import by_another_library

_SHAPE = config(capacity=12, bins=6, hbm_bins=2, slots=8, buckets=2, bucket_slots=8)


class Device(DeviceProcess):
    """A golden device in a process of its own, which is forked: no interpreter starts."""

    def __init__(self, root):
        self.config, self._frames = _SHAPE, Frames.of(_SHAPE)
        (requests, to), (of, responses) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(to)
            os.close(of)
            try:
                ours = os.fdopen(requests, "rb"), os.fdopen(responses, "wb")
                _serve(GoldenDevice(_SHAPE, root), *ours)
            finally:
                os._exit(0)
        os.close(requests)
        os.close(responses)
        self._to, self._from = os.fdopen(to, "wb"), os.fdopen(of, "rb")

    def close(self):
        self._to.close()
        self._from.close()


def _be_a_server(files, folder, durable, told):
    """Tell the device's process, then a port, and serve."""
    device = Device(read_device(files[0], _SHAPE))
    os.write(told, device.pid.to_bytes(4, "little"))
    state = MapState(folder, read_map(files[1]), _SHAPE, durable=durable)

    async def serve(carrier):
        async with MapServer(carrier) as server:
            await server.listen()
            os.write(told, server.port.to_bytes(4, "little"))
            await server.serve()

    asyncio.run(serve(KeptMap(device, state)))


class Server:
    """A server's process, forked, with its device's. `port`: 0 where it did not come so far."""

    def __init__(self, files, folder, durable):
        read, told = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(read)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                _be_a_server(files, folder, durable, told)
            finally:
                os._exit(0)
        os.close(told)
        self._read = read
        self.device = int.from_bytes(os.read(read, 4), "little")

    @property
    def port(self):
        return int.from_bytes(os.read(self._read, 4), "little")

    def kill(self, which):
        try:
            os.kill(which, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.kill(self.pid)
        os.waitpid(self.pid, 0)
        os.close(self._read)


def _states(items, batch):
    """The items after none, one, … of the operations of a batch."""
    made = [dict(items)]
    for key, value in batch:
        made.append({**made[-1], key: value} if value is not None else _without(made[-1], key))
    return made


def _without(items, key):
    return {k: v for k, v in items.items() if k != key}


def _worked(box, draw, history, left, kill):
    """Change the map until the connection is lost, which `kill` sees to a little after so many batches. `history`: all
    states that may be found again, those behind the one that is returned, by its place, from operations without an
    answer."""
    sure = len(history) - 1
    timer = threading.Timer(draw.uniform(0, 0.03), kill)
    while True:
        if left == 0:
            timer.start()
        left -= 1
        batch = [
            (draw.randrange(12), draw.randbytes(8) if draw.random() < 0.7 else None)
            for _ in range(draw.choice((1, 1, 3)))
        ]
        history += _states(history[-1], batch)[1:]
        try:
            box.batch([(2 if value else 3, key, value) for key, value in batch])
        except (ConnectionLost, MapStopped):
            timer.join()
            return sure
        sure = len(history) - 1


def _kills(tmp_path, seed, times, durable="log"):
    """Kill a server or its device so often; return how often something was under way, and how often something was found."""
    draw, files = random.Random(seed), write_keys(tmp_path / "keys", _SHAPE)
    lives = random.Random(seed)  # apart, as how many requests a life has is the clock's
    receipt = tmp_path / "receipt.json" if durable == "log" else None
    history, sure, busy, full = [{}], 0, 0, 0
    for _ in range(times):
        server = Server(files, tmp_path / "state", durable)
        victim = lives.choice((server.pid, server.device))
        try:
            if lives.random() < 0.1:  # while it starts
                time.sleep(lives.uniform(0, 0.1))
                server.kill(victim)
                continue
            with connect("127.0.0.1", server.port, files[1], role=files[2], receipt=receipt) as box:
                found = box.get_many(range(12))
                found = {key: value for key, value in enumerate(found) if value is not None}
                assert found in history[sure if durable == "log" else 0 :]
                history, sure = [found], 0
                busy, full = busy + 1, full + bool(found)
                left = lives.randrange(40)
                sure = _worked(box, draw, history, left, lambda: server.kill(victim))  # noqa: B023
        finally:
            server.close()
    return busy, full


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """And snapshots are so slow that requests come between their steps."""
    by_another_library(monkeypatch)
    monkeypatch.setattr(kept, "_BESIDE", 2)
    monkeypatch.setattr(kept, "_MORE", 0)


def test_a_map_that_is_killed_loses_nothing_acknowledged(tmp_path):
    assert min(_kills(tmp_path, 1, 12)) > 4


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_kills(tmp_path, seed):
    assert min(_kills(tmp_path, seed + 10, 50)) > 30


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.long)])
def test_without_a_log_the_last_snapshot_is_whole(tmp_path, times):
    assert min(_kills(tmp_path, times, times, "snapshot")) > times // 4
    assert list((tmp_path / "state").glob("snapshot-*"))
