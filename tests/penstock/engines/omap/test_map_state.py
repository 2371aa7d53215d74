"""penstock serve --state and penstock keeper, as processes that are killed at any time."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.engines.omap.commands import _DEVICES
from penstock.host.omap.client import ConnectionLost, connect
from penstock.host.omap.keyfiles import KeyFileError
from penstock.host.omap.receipts import ReceiptError, RolledBack

_TEXT = "import penstock as ps\n\nbox = ps.ObliviousMap(value=ps.bytes(8), capacity=40)\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A kernel's file and a folder of keys."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "maps.py").write_text(_TEXT)
    assert run(["keys", str(folder / "maps.py"), "--out", str(folder / "keys")]) == 0
    return folder / "maps.py", folder / "keys"


@contextmanager
def _served(keys, state, *more):
    """A server's process and its port; killed at the end."""
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        keys[0],
        "--keys",
        keys[1],
        "--state",
        state,
        *more,
    ]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE) as process:
        try:
            said = process.stdout.readline().decode()
            yield process, int(re.match(r"serving on 127\.0\.0\.1:(\d+) ", said)[1])
        finally:
            process.kill()


def _connected(keys, port, **options):
    return connect("127.0.0.1", port, keys[1] / "map.json", role=keys[1] / "writer.json", **options)


def _killed(keys, folder, seed, times):
    """Kill a server while operations are under way, and start it again."""
    draw, items, receipt = random.Random(seed), {}, folder / "receipt.json"
    ahead = None
    for _ in range(times):
        with _served(keys, folder / "state") as (process, port):
            with _connected(keys, port, receipt=receipt) as box:
                found = dict(zip(range(40), box.get_many(range(40)), strict=True))
                found = {key: value for key, value in found.items() if value is not None}
                assert found == items or (ahead is not None and found == items | ahead)
                items = found
                timer = threading.Timer(draw.uniform(0.1, 0.4), process.kill)
                timer.start()
                with pytest.raises(ConnectionLost):
                    while True:
                        ahead = {draw.randrange(40): draw.randbytes(8)}
                        box.update(ahead)
                        items |= ahead
    return receipt


def test_a_server_that_is_killed_loses_nothing_acknowledged(keys, tmp_path, capsys):
    receipt = _killed(keys, tmp_path, 1, 2)
    old = shutil.copytree(tmp_path / "state", tmp_path / "old")
    _killed_once(keys, tmp_path, receipt)
    watched = [str(keys[1] / "keeper.json"), "--once", "--receipt"]
    with _served(keys, tmp_path / "state") as (_, port):
        place = f"127.0.0.1:{port}"
        for confirmed in (False, False, True):
            with _connected(keys, port, receipt=receipt) as box:
                assert box.confirmed is confirmed
            assert run(["keeper", place, *watched, str(tmp_path / "kept")]) == 0
    with _served(keys, old) as (_, port):
        with pytest.raises(RolledBack, match="operations that were acknowledged are gone"):
            _connected(keys, port, receipt=receipt)
        place = f"127.0.0.1:{port}"
        capsys.readouterr()
        assert run(["keeper", place, *watched, str(tmp_path / "kept")]) == 1
        assert "the map is not the one that" in capsys.readouterr().err
        receipt.write_text("{}")
        with pytest.raises(ReceiptError, match="is not a receipt: "):
            _connected(keys, port, receipt=receipt)


def _killed_once(keys, folder, receipt):
    with _served(keys, folder / "state") as (_, port):
        with _connected(keys, port, receipt=receipt) as box:
            box[1] = bytes(8)


def test_what_a_folder_of_state_is_refused_for(keys, tmp_path, capfd):
    serve = ["serve", str(keys[0]), "--keys", str(keys[1]), "--state", str(tmp_path / "state")]
    with _served(keys, tmp_path / "state"):
        assert capfd.readouterr().err == f"--device device is {_DEVICES['device']}\n"
        (tmp_path / "state" / "lock").unlink()
        assert run(serve) == 1
        assert "is in use by another server" in capfd.readouterr().err
    assert run(["keys", str(keys[0]), "--out", str(tmp_path / "keys")]) == 0
    assert run(["serve", str(keys[0]), "--keys", str(tmp_path / "keys"), *serve[4:]]) == 1
    assert "has the state of another device" in capfd.readouterr().err


def test_what_devices_are_no_guarantee_of():
    """`docs/explanation/omap_threats.md` has a column of each."""
    assert (
        _DEVICES["device"]
        == _DEVICES["native"]
        == (
            "a stand-in for hardware: the time of its answers may tell what is asked, and who owns this machine "
            "can read the map in its memory"
        )
    )
    page = (Path(__file__).parents[4] / "docs/explanation/omap_threats.md").read_text()
    assert all(f"`--device {name}`" in page for name in _DEVICES)


def test_renewed_keys(keys, tmp_path, capsys):
    kernel, folder = keys[0], tmp_path / "keys"
    shutil.copytree(keys[1], folder)
    old = shutil.copytree(folder, tmp_path / "old")
    with _served((kernel, folder), tmp_path / "state") as (_, port):
        with _connected((kernel, folder), port) as box:
            box[1] = b"12345678"
    renew = ["keys", str(kernel), "--renew", "--out"]
    assert run([*renew, str(folder)]) == 0
    assert "a server takes them when it starts" in capsys.readouterr().out
    assert run([*renew, str(tmp_path / "none")]) == 1
    assert "none: No such file or directory" in capsys.readouterr().err
    with _served((kernel, folder), tmp_path / "state") as (_, port):
        with _connected((kernel, folder), port) as box:
            assert box[1] == b"12345678"
        for public, role in ((old, old), (folder, old)):
            files = public / "map.json", role / "writer.json"
            with pytest.raises(KeyFileError):
                connect("127.0.0.1", port, files[0], role=files[1])


def test_what_durable_is_refused_for(keys, capsys):
    assert run(["serve", str(keys[0]), "--keys", str(keys[1]), "--durable", "log"]) == 1
    assert "--durable is for maps that outlive the server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--state", ""], "--state has an empty name"),
        (["--host", ""], "--host has an empty name"),
        (["--host", "host.invalid"], "name this machine, or one of its addresses"),
        (["--host", "a..b"], "name this machine, or one of its addresses"),
        (["--host", "a" * 64], "name this machine, or one of its addresses"),
    ],
)
def test_what_serve_is_refused_for(options, told, keys, capsys):
    assert run(["serve", str(keys[0]), "--keys", str(keys[1]), *options]) == 1
    assert told in " ".join(capsys.readouterr().err.split())


def test_keys_without_a_folder(keys, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["keys", str(keys[0]), "--out", ""]) == 1
    assert "--out has an empty name" in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_device_in_another_language_goes_on_with_a_map(keys, tmp_path):
    for turn, more in enumerate(((), ("--device", "native"), ("--device", "native"), ())):
        with _served(keys, tmp_path / "state", *more) as (_, port):
            with _connected(keys, port, receipt=tmp_path / "receipt") as box:
                assert box.get_many(range(5)) == [
                    bytes([k] * 8) if k < turn else None for k in range(5)
                ]
                box[turn] = bytes([turn] * 8)
