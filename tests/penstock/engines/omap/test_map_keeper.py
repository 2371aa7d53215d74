"""penstock keeper: what ends it, what it goes on behind, and what it says meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cli.main import run
from penstock.host.omap.client import AsyncMap, ConnectionLost, NotAllowed
from penstock.host.omap.frames import Code, MessageChanged, Refused
from penstock.host.omap.keyfiles import write_keys
from testbench.omap import config


@pytest.fixture
def command(tmp_path):
    write_keys(tmp_path / "keys", config())
    key, receipt = tmp_path / "keys" / "keeper.json", tmp_path / "kept"
    return ["keeper", "localhost:7700", str(key), "--receipt", str(receipt)]


class Box:
    """A session whose looks end so, one after another."""

    serial = 3

    def __init__(self, ends):
        self._ends = iter(ends)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def present(self):
        if (end := next(self._ends, None)) is not None:
            raise end


def _answered(monkeypatch, *answers):
    """Let connections end so, one after another: in an error, or with sessions; nobody waits."""
    left, asked = list(answers), []

    async def connect(*place, **options):
        asked.append((place, options))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def soon(_):
        pass

    monkeypatch.setattr(AsyncMap, "connect", connect)
    monkeypatch.setattr(asyncio, "sleep", soon)
    return asked


def test_what_it_goes_on_behind(command, monkeypatch, capsys):
    nobody, other = ConnectionLost("nobody is there"), ConnectionLost("it refuses")
    full = Refused(Code.FULL, 0)
    answers = nobody, nobody, other, Box([None, full]), full, Box([MessageChanged("changed")])
    _answered(monkeypatch, *answers)
    assert run(command) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["the map is as it was, or newer: serial 3"] * 2
    tells = [line.split(";")[0] for line in said.err.splitlines() if "trying again" in line]
    assert tells[:2] == ["nobody is there", "it refuses"] and len(tells) == 3
    assert "disk is full" in tells[2] and said.err.count("the map answers again") == 2
    assert "changed" in said.err and "internal error" not in said.err


@pytest.mark.parametrize(
    "problem", [MessageChanged("it was changed"), NotAllowed("a session may not")]
)
def test_what_ends_it_in_one_diagnostic(problem, command, monkeypatch, capsys):
    _answered(monkeypatch, Box([None, problem]))
    assert run(command) == 1
    assert str(problem) in (said := capsys.readouterr().err) and "internal error" not in said


@pytest.mark.parametrize("name", ["writer", "device", "map"])
def test_a_key_of_another_role_is_refused_before_anything_is_asked(
    name, command, monkeypatch, capsys
):
    asked = _answered(monkeypatch)
    command[2] = command[2].replace("keeper", name)
    assert run(command) == 1 and not asked
    told = "is a writer's key" if name == "writer" else "has no key writer or keeper"
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("localhost", "is no HOST:PORT"),
        (":7700", "is no HOST:PORT"),
        ("::1:7700", "is no HOST:PORT"),
        ("[]:7700", "is no HOST:PORT"),
        ("localhost:99999", "a port is from 1 to 65535"),
        ("localhost:0", "a port is from 1 to 65535"),
    ],
)
def test_places_that_are_none(place, told, command, monkeypatch, capsys):
    asked = _answered(monkeypatch)
    assert run([command[0], place, *command[2:]]) == 1 and not asked
    assert told in " ".join(capsys.readouterr().err.split())


def test_where_and_how_it_connects(command, monkeypatch, tmp_path, capsys):
    asked = _answered(monkeypatch, Box([]))
    assert run([command[0], "[::1]:7700", *command[2:], "--once"]) == 0
    [(place, options)] = asked
    assert place[:2] == ("::1", 7700) and options["tls"] is options["server_name"] is None
    assert run([*command, "--server-name", "here"]) == 1
    assert run([*command, "--certificate", str(tmp_path / "none")]) == 1
    assert "there is no file" in " ".join(capsys.readouterr().err.split())
