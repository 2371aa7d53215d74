"""A design's folder is read as it was saved, or refused with one diagnostic that names the file."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import api
from penstock.cli.main import run
from penstock.designs.folder import FolderError, read_folder, sealed
from penstock.engines.design import Saved
from penstock.engines.discovery import engines
from penstock.models.memory import FixedLatency
from penstock.output import write_folder
from testbench import outside

EXAMPLES = Path(__file__).parents[3] / "examples"
VERILOG = (
    "// {}\nmodule penstock(input clk);\n  assign m0_axi_araddr = 32'd4096 - 32'd7;\nendmodule\n"
)
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ps.Design]]:
    """A small design of each engine, and of one from outside; their Verilog does not matter here."""
    kernel = tmp_path_factory.mktemp("kernels") / "f.psk"
    kernel.write_text(
        "fit f(key: key)\n  model <- least_squares(window(key, 4), target=rank(key))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(outside.PACKAGE))
        from penstock_tally.engine import TallyDesign, TallyingEngine

        patch.setitem(engines(), "tally", TallyingEngine())
        made = {
            "analytics": api.compile(EXAMPLES / "logistic.psk", dims={"d": 3}, init={"w": 0.5}),
            "columns": api.compile(EXAMPLES / "closed_form.psk", dims={"d": 2}),
            "keys": api.compile(kernel, "small"),
            "pim": api.compile(EXAMPLES / "retnet.psk", dims={"k": 32, "v": 32}),
            "omap": api.compile(ps.ObliviousMap(value=ps.bytes(24), capacity=300, name="m")),
            "tally": TallyDesign(ps.target("small"), FixedLatency(20, 8), "sums", 3),
        }
        yield {
            name: replace(one, saved=Saved("", 0, VERILOG.format(name)))
            for name, one in made.items()
        }


def load(folder: Path) -> Any:
    """The design of a folder, with the Verilog that stands there: what is compared here is the rest."""
    return api.load(folder, trust=True)


def write(folder: Path, files: Files) -> Path:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def same(one: ps.Design, other: ps.Design) -> bool:
    """Whether two designs behave alike: all that they do follows from these."""
    first, second = (
        (json.dumps(each.manifest(), sort_keys=True), each.verilog, each.images(), each.listings())
        for each in (one, other)
    )
    return first == second


def forged(text: bytes) -> bytes:
    """A manifest with its digest computed anew, in a way of its own: no part of it is the loader's."""
    mark = b' "sha256": "'
    at = text.rindex(b"\n" + mark) + 1 + len(mark)
    blank = text[:at] + b"0" * 64 + text[at + 64 :]
    return text[:at] + hashlib.sha256(blank).hexdigest().encode() + text[at + 64 :]


# changes


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*place, key)
        if isinstance(one, dict | list):
            yield from leaves(one, (*place, key))


def of_json(draw: random.Random, files: Files) -> Files:
    """A value of the manifest is another one, in another place, or gone."""
    manifest = json.loads(files["manifest.json"])
    places = list(leaves(manifest))
    *above, key = draw.choice(places)
    *others, other = draw.choice(places)
    inner, source = manifest, manifest
    for step in above:
        inner = inner[step]
    for step in others:
        source = source[step]
    value, how = inner[key], draw.randrange(3)
    if how == 0:
        del inner[key]
    elif how == 1:
        inner[key] = deepcopy(source[other])
    else:
        inner[key] = {bool: lambda v: not v, int: lambda v: v + draw.choice([1, -1, 1 << 40])}.get(
            type(value), lambda v: draw.choice([None, [], {}, "add", "sub", -1, 0.5])
        )(value)
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    return files | {"manifest.json": text.encode()}


def of_keys(draw: random.Random, files: Files) -> Files:
    """A line of the manifest stands twice, the second time perhaps with another value."""
    lines = files["manifest.json"].splitlines(keepends=True)
    at = draw.choice([n for n, line in enumerate(lines) if line.rstrip().endswith(b",")])
    again = re.sub(rb"\d", b"7", lines[at]) if draw.random() < 0.5 else lines[at]
    return files | {"manifest.json": b"".join([*lines[: at + 1], again, *lines[at + 1 :]])}


def of_bytes(draw: random.Random, files: Files) -> Files:
    """A bit, a byte or a stretch of a file is another one, the file is cut, or it is longer."""
    name = draw.choice(sorted(files))
    data = bytearray(files[name])
    at, end = sorted(draw.randrange(len(data)) for _ in range(2))
    how = draw.randrange(5)
    if how == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif how == 1:
        data[at], data[end] = data[end], data[at]
    elif how == 2:
        del data[at:]
    elif how == 3:
        data[at:end] = data[at:end][::-1]
    else:
        data += data[at : end + 1]
    return files | {name: bytes(data)}


def of_words(draw: random.Random, files: Files) -> Files:
    """A word of a text is another word of it: an instruction, a register, an operator, a number."""
    name = draw.choice(sorted(name for name in files if not name.endswith(".bin")))
    words = list(re.finditer(rb"[\w.]+|[-+*]", files[name]))
    one, other = draw.choice(words), draw.choice(words)
    return files | {name: files[name][: one.start()] + other[0] + files[name][one.end() :]}


def of_names(draw: random.Random, files: Files) -> Files:
    """Two files have changed places, one is gone, or has another name."""
    one, other = draw.sample(sorted(files), 2)
    how = draw.randrange(3)
    if how == 0:
        return files | {one: files[other], other: files[one]}
    rest = {name: data for name, data in files.items() if name != one}
    return rest if how == 1 else rest | {f"{one}.orig": files[one]}


def from_another(draw: random.Random, files: Files, others: list[Files]) -> Files:
    """A file is that of another design."""
    other = draw.choice(others)
    name = draw.choice(sorted(files.keys() & other.keys()))
    return files | {name: other[name]}


KINDS: tuple[Callable[..., Files], ...] = (of_json, of_keys, of_bytes, of_words, of_names)


def test_1200_changes(designs: dict[str, ps.Design], tmp_path: Path) -> None:
    draw, folder = random.Random(26), tmp_path / "d"
    whole = {name: design.files() for name, design in designs.items()}
    for name, design in designs.items():
        assert same(load(write(folder, whole[name])), design)
    refused = 0
    for number in range(1200):
        name = draw.choice(sorted(designs))
        kind = draw.choice((*KINDS, from_another))
        more = ([whole[n] for n in whole if n != name],) if kind is from_another else ()
        files = kind(draw, whole[name], *more)
        changed = {f for f in files | whole[name] if files.get(f) != whole[name].get(f)}
        try:
            again = load(write(folder, files))
        except FolderError as problem:
            found = problem.diagnostic
            # a folder without a manifest is named itself, and beside another's the rest is wrong
            other = kind is from_another and "manifest.json" in changed
            named = found.message.removesuffix(" holds no design: it has no manifest.json")
            assert other or named == str(folder) or Path(str(found.span)).name in changed, number
            assert found.code == "E806" and found.hint and "\n" not in found.message
            refused += 1
        else:
            assert same(again, designs[name]), (number, kind)
    assert refused > 1100  # a word in place of itself, and the like, is no change


def test_who_computes_the_digests_anew_sees_no_traceback(
    designs: dict[str, ps.Design], tmp_path: Path
) -> None:
    """Nor gets a design that this version would make otherwise."""
    draw, folder, refused = random.Random(27), tmp_path / "d", 0
    whole = {name: design.files() for name, design in designs.items()}
    for _ in range(200):
        name = draw.choice(sorted(designs))
        text = of_json(draw, whole[name])["manifest.json"]
        if b'\n "sha256": "' not in text:
            continue
        manifest = forged(text)
        try:
            again = load(write(folder, whole[name] | {"manifest.json": manifest}))
        except FolderError as problem:
            assert problem.diagnostic.hint
            refused += 1
        else:
            now, said = json.loads(json.dumps(again.manifest())), json.loads(manifest)
            assert now == {key: said[key] for key in now}
    assert refused > 80


def _manifest(**entries: object) -> bytes:
    return sealed(entries, {})["manifest.json"]


def _with(x: bytes, files: bytes = b"{}") -> bytes:
    """A manifest with these texts in it, and the digest of another."""
    return _manifest(x=7).replace(b": 7", b": " + x).replace(b"{}", files)


def _listing(name: bytes, size: bytes = b"1") -> bytes:
    return forged(_with(b"1", b'{"%s": {"bytes": %s, "sha256": "0"}}' % (name, size)))


DEEP = _with(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "{folder} holds no design: it has no manifest.json"),
        (b"", "was cut or changed: its own digest is not in it"),
        (b"\xff\xfe{", "was cut or changed: its own digest is not in it"),
        (b'{\n "penstock": 1,\n "x": 1\n}', "is of format 1, and this Penstock reads format 5"),
        (
            forged(re.sub(rb' "penstock": \d+', b' "penstock": null', _manifest(x=1))),
            "does not say its format",
        ),
        (_with(b"8"), "was changed after the design was saved"),
        (DEEP, "was changed after the design was saved"),
        (forged(DEEP), "is not JSON: it is nested too deeply"),
        (forged(_with(b'"]\\"[' + b"[" * 99 + b'"')), "KeyError: 'penstock.v'"),
        (forged(_with(b"7" * 5000)), "is not JSON: "),
        (forged(_with(b"\xff")), "is not JSON: "),
        (forged(_manifest(x=7)[2:]), "is not JSON: "),
        (forged(b'[\n "sha256": "' + b"0" * 64 + b'"\n]'), "is not JSON: "),
        (_manifest(x=1), "describes no design that this version knows (KeyError: "),
        (
            _manifest(engine="none", board={"name": "x"}),
            "this version knows (ValueError: there is no engine none",
        ),
        (_manifest(engine="qr", board=3), "this version knows (TypeError: "),
        (forged(_with(b"1", b"3")), "does not say what the other files hold"),
        (_listing(b"../x"), "say what"),
        (_listing(b"x", b"0.5"), "say what"),
        (_listing(b"x"), "there is no file"),
        (_listing(rb"\u001b[31m"), "/\ufffd[31m there is no file"),
        (_manifest(engine="\x1b[31m", board={"name": "x"}), "there is no engine \ufffd[31m"),
        (_listing(b".."), "is a folder, not a file"),
    ],
    ids=range(23),
)
def test_folders_that_hold_no_design(text: bytes | None, said: str, tmp_path: Path) -> None:
    """From Python, as the register map of a board, as a device in simulation, and for a loader."""
    write(tmp_path / "d", {} if text is None else {"manifest.json": text})
    said = re.escape(said.replace("{folder}", str(tmp_path / "d")))
    with pytest.raises(FolderError, match=said) as found:
        load(tmp_path / "d")
    assert isinstance(found.value, ValueError)
    for url, design in ((f"sim:{tmp_path / 'd'}", None), ("serial:nowhere", tmp_path / "d")):
        with pytest.raises(FolderError, match=said) as refused:
            ps.open(url, design=design)
        assert refused.value.diagnostic == found.value.diagnostic


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "nowhere", "x" * 5000, "a\0b"):
        with pytest.raises(FolderError, match=r"holds no design|File name too long"):
            load(tmp_path / place)


def test_one_diagnostic_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bitstream that was cut is not loaded into a board."""
    files = sealed({"board": {"name": "ulx3s-85f"}}, {"penstock.bit": b"bits" * 99})
    write(tmp_path / "d", files | {"penstock.bit": b"bits" * 98})
    assert run(["program", str(tmp_path / "d"), "--board", "ulx3s-85f"]) == 1
    place = tmp_path / "d" / "penstock.bit"
    assert capsys.readouterr().err == (
        f"error[E806]: {place} was cut: it has 392 of 396 bytes\n --> {place}\n"
        "hint: write it again with penstock compile or penstock build\n"
    )


def test_files_that_the_manifest_does_not_list_are_left_alone(tmp_path: Path) -> None:
    files = sealed({}, {"a": b"1"})
    write(tmp_path / "d", files | {"notes.txt": b"mine"})
    assert read_folder(tmp_path / "d")[1] == {"a": b"1"}


def test_an_image_that_the_plan_does_not_make(
    designs: dict[str, ps.Design], tmp_path: Path
) -> None:
    """With digests computed anew, and with the image left out."""
    files = designs["analytics"].files()
    manifest, boot = json.loads(files.pop("manifest.json")), files.pop("boot.bin")
    for more, said in (
        ({"boot.bin": boot[:-1] + b"\x7f"}, "its boot.bin is another"),
        ({}, "boot"),
    ):
        with pytest.raises(FolderError, match=said):
            load(write(tmp_path / "d", sealed(manifest, files | more)))
    assert same(
        load(write(tmp_path / "d", sealed(manifest, files | {"boot.bin": boot}))),
        designs["analytics"],
    )


def test_an_exported_core_is_no_design(tmp_path: Path) -> None:
    write_folder(tmp_path / "core", sealed({"export": {"ip": "a"}}, {"rtl/a.v": b"module a;"}))
    with pytest.raises(FolderError, match="core holds a core, no design: export wrote it"):
        read_folder(tmp_path / "core")


@pytest.mark.parametrize("link", ["udp", "gbps=2,latency=3us", "uart,baud=500000"])
def test_a_link_is_kept(link: str, tmp_path: Path) -> None:
    """A design that was compiled for a link is modelled with it, as `penstock model` models it."""
    words = [str(EXAMPLES / "logistic.py"), "--target", "colorlight-i5", "--dim", "d=4"]
    words += ["--format", "fixed:8,8", "--data", "random:rows=3000", "--ring", "2", "--link", link]
    out, told = tmp_path / "made", tmp_path / "model.json"
    assert run(["compile", *words, "--out", str(out), "-q"]) == 0
    assert run(["model", *words, "--json", str(told), "-q"]) == 0
    cycles = ps.load(out).run("random:rows=3000", "model").cycles
    assert cycles == json.loads(told.read_text())["cycles"]["model"]
    more: dict[str, Any] = {"dims": {"d": 4}, "ring": 2, "link": link}
    made = ps.compile(words[0], "colorlight-i5", "random:rows=3000", "fixed:8,8", **more)
    assert made.run("random:rows=3000", "model").cycles == cycles
    with pytest.raises(ps.Error, match=r"link.*it is a text such as 'udp'"):
        ps.compile(words[0], "colorlight-i5", link=5, dims={"d": 4})  # type: ignore[arg-type]
    made.save(tmp_path / "python")
    assert all(
        same.read_bytes() == (tmp_path / "python" / same.name).read_bytes()
        for same in out.iterdir()
    )
