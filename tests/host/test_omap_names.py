"""Keys that are text and bytes: what numbers stand for them, and what clients refuse."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b

import pytest

from penstock.host.omap import ObliviousMap
from penstock.host.omap.client import AsyncMap, ConnectionLost, connect
from penstock.host.omap.devices import GoldenDevice
from penstock.host.omap.keyfiles import KeyFileError, read_device, read_map, write_keys
from penstock.host.omap.names import number_of
from penstock.host.omap.server import MapServer
from penstock.models.memory import FixedLatency
from penstock.models.omap.messages import Operation
from penstock.models.omap.planner import plan
from testbench.omap import config

_SHAPE = config(key="text")


def test_a_dict_with_text_and_bytes():
    for kind, keys in (("text", ["", "é", "a", "b" * 999]), ("bytes", [b"", b"a", bytes(99)])):
        with ObliviousMap(40, key=kind, backend="device") as box:
            mirror = {key: bytes([n] * 8) for n, key in enumerate(keys)}
            box.update(mirror)
            assert dict(box) == mirror and list(box) == keys and len(box) == len(keys)
            assert box.popitem() == mirror.popitem() and box.get(keys[-1]) is None
            box.clear()
            assert not box
    with ObliviousMap(40, key="text") as box:
        box.update(anna=b"12345678")
        assert box["anna"] == b"12345678" and "bob" not in box and b"anna" not in box


@pytest.mark.parametrize(
    ("kind", "key", "problem"),
    [
        ("text", 7, r"^a key of this map is text, not int$"),
        ("text", b"anna", r"^a key of this map is text, not bytes$"),
        ("text", None, r"^a key of this map is text, not NoneType$"),
        (
            "text",
            "\ud800",
            r"^a key is text that UTF-8 has, not '\\ud800': surrogates not allowed$",
        ),
        ("bytes", "anna", r"^a key of this map is bytes, not str$"),
        ("u64", "anna", r"^a key is an integer, not str$"),
    ],
)
def test_nothing_is_carried_out_where_a_key_is_wrong(kind, key, problem):
    with ObliviousMap(40, key=kind) as box:
        good = {"text": "a", "bytes": b"a", "u64": 1}[kind]
        for call in (
            lambda: box[key],
            lambda: box.update({good: bytes(8), key: bytes(8)}),
            lambda: box.get_many([good, key]),
            lambda: box.pop(key),
            lambda: box.setdefault(key, bytes(8)),
        ):
            with pytest.raises((TypeError, ValueError), match=problem):
                call()
        assert key not in box and len(box) == 0 and box.get(good) is None


def test_keys_that_had_no_room_are_named_as_they_were_given():
    with ObliviousMap(2, key="text") as box:
        with pytest.raises(OverflowError, match=r"2 items already: not set: 'c', 'd'$"):
            box.put_many([(key, bytes(8)) for key in "abcd"])
        assert sorted(box) == ["a", "b"]


def test_the_number_of_a_key_is_a_hash_under_the_maps_salt(tmp_path):
    """What reaches the device is BLAKE2b-128 with the salt of `map.json`, whoever asks."""
    device, known, writer, _ = write_keys(tmp_path / "keys", _SHAPE)
    salt = bytes.fromhex(json.loads(known.read_text())["salt"])
    other = write_keys(tmp_path / "other", _SHAPE)[1]
    assert len(salt) == 16 and read_map(other).salt != salt
    golden = GoldenDevice(_SHAPE, read_device(device, _SHAPE))

    async def talk():
        async with MapServer(golden) as server:
            await server.listen()
            place = "127.0.0.1", server.port
            async with await AsyncMap.connect(*place, known, role=writer) as box:
                await box.load({"anna@example.org": b"12345678"}, records=3)
                with pytest.raises(TypeError, match="a key of this map is text, not int"):
                    await box.batch([(Operation.GET, "anna", None), (Operation.GET, 7, None)])
                assert box.serial == 3
            async with await AsyncMap.connect(*place, known) as reader:
                assert await reader.get("anna@example.org") == b"12345678"
            told = json.loads(known.read_text())
            known.write_text(json.dumps({k: v for k, v in told.items() if k != "salt"}))
            with pytest.raises(KeyFileError, match=r"map\.json has no salt"):
                await AsyncMap.connect(*place, known)

    asyncio.run(talk())
    [(number, _)] = golden._device.device.map.items()
    text = blake2b(b"anna@example.org", digest_size=16, salt=salt).digest()
    assert number == int.from_bytes(text, "little")


def test_a_lost_connection_keeps_the_record_of_keys(tmp_path):
    device, known, writer, _ = write_keys(tmp_path, _SHAPE)
    golden = GoldenDevice(_SHAPE, read_device(device, _SHAPE))
    lost = asyncio.Event()

    async def serve(ready):
        async with MapServer(golden) as server:
            await server.listen()
            ready.set_result(server)
            await lost.wait()

    async def both():
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(serve(ready))
        server = await ready
        await asyncio.to_thread(_lose, server, known, writer)
        lost.set()
        await task

    asyncio.run(both())


def _lose(server, known, writer):
    def cut(frame):
        raise ValueError("it is cut")

    with connect("127.0.0.1", server.port, known, role=writer) as box:
        box["a"] = bytes(8)
        box._remote.client._messages.read_answer = cut
        with pytest.raises(ConnectionLost):
            box["b"] = bytes(8)
        assert list(box) == ["a"]
        [(request, response)] = box.reconnect()
        assert request.key == number_of("b", read_map(known).salt) == response.key
        assert list(box) == ["a", "b"] and box["b"] == bytes(8)


def test_plans_of_keys_that_are_hashes():
    memory = FixedLatency(60, 32)
    number, text = plan(1 << 16, 8, memory=memory), plan(1 << 16, 8, key="text", memory=memory)
    assert (number.entry_bytes, text.entry_bytes, text.key_bytes) == (16, 32, 16)
    assert plan(50, 8, key="text", memory=FixedLatency(60, 16), bus_bytes=16).bus_bytes == 32
    with pytest.raises(ValueError, match=r"^key must be one of u64, bytes, text, not 'name'$"):
        plan(50, 8, key="name", memory=memory)
