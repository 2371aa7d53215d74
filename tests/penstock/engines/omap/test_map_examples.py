"""The examples of services that a map makes, as programs, on few items: what is found equals a dictionary's, and the servers end quietly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.host.omap.client import connect

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("breached_passwords.py 300", 5),
        ("contacts.py 400", 2),
    ],
)
def test_services(words: str, lines: int) -> None:
    name, *rest = words.split()
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *rest], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert len(told) == lines and told[-1].endswith(": True")
    assert lines == 2 or "moves 107 bytes" in told[1], told


@pytest.mark.parametrize("words", [("0",), ("1",), ("xx",), ("99999",), ("300", "3")])
def test_words_that_are_no_number_of_them(words: tuple[str, ...]) -> None:
    command = [sys.executable, EXAMPLES / "breached_passwords.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "WORDS is a number from 40 to 32,768\n")


def test_a_server_that_is_ended_beside_a_client_says_so_in_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11's streams print a traceback for a connection's task that is cancelled."""
    kernel = EXAMPLES / "contacts.py"
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert run(["keys", str(kernel), "--out", str(tmp_path / "keys")]) == 0
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        kernel,
        "--keys",
        tmp_path / "keys",
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline().split(":")[1].split()[0])
    with connect("127.0.0.1", port, tmp_path / "keys" / "map.json") as box:
        assert box.get("+1") is None
        server.terminate()
        said = server.communicate(timeout=60)[1]
    assert said.strip().splitlines()[-1] == "terminated" and "Traceback" not in said
