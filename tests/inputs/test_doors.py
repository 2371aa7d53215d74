"""Readers beside those of tables: what hangs, runs for ever or is no file of theirs is one error at once."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import penstock as ps
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, render
from penstock.dsl.core.load import load_kernel
from penstock.engines.omap import commands, keeper
from penstock.engines.pim.models import language
from penstock.errors import Conflict
from penstock.host.omap.keyfiles import settle_keys
from penstock.host.omap.receipts import read_receipt
from penstock.host.omap.state import MapState, StateError
from penstock.sim.native.store import publish, text_of

_LOGISTIC = "kernel k(x: input[d], y: output, w: model[d])\n  w <- w - merge({} * x, 4)\n"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.mark.parametrize("text", ['"QQQ"', '["D"]', f'"{"D" * 999}"', '"D"'])
def test_periods_that_pandas_does_not_take(tmp_path: Path, text: str) -> None:
    """What a file says of a column's type may be anything, and its numbers beyond every calendar."""
    about = {
        b"ARROW:extension:name": b"pandas.period",
        b"ARROW:extension:metadata": b'{"freq": %b}' % text.encode(),
    }
    field = pa.field("x", pa.int64(), metadata=about)
    table = pa.Table.from_arrays([pa.array([2**62, -5])], schema=pa.schema([field]))
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ps.SourceError, match=r"^column 'x' of .* cannot be packed: ") as caught:
        ps.open_table(str(tmp_path / "t.parquet"), features=["x"])
    assert caught.value.code == "E704" and len(caught.value.message) < 500


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
def test_many_rows_in_a_small_file(tmp_path: Path, suffix: str) -> None:
    """Each row takes a header and a line pointer in a page, however small its cell is."""
    file, cells = tmp_path / f"t.{suffix}", np.zeros(10_000_000, np.int8)
    table = pa.table({"x": cells})
    if suffix == "parquet":
        parquet.write_table(table, file, compression="none")
    elif suffix == "arrow":
        with pa.OSFile(str(file), "wb") as sink:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_file(sink, table.schema, options=options) as writer:
                writer.write_table(table)
    else:
        np.savez_compressed(file, x=cells)
    with pytest.raises(ps.SourceError, match=r"which unpack to .*: more than 100 times") as caught:
        ps.open_table(str(file))
    assert caught.value.hint.endswith("without compression, Parquet without dictionaries too")


def test_the_place_of_a_diagnostic_may_be_no_file(fifo: Path) -> None:
    """A folder of a design from somebody else says in which file its kernel was."""
    diagnostic, shown = Diagnostic("E606", "no", Span(str(fifo), 2, 1, 2, 7), hint="yes"), []
    drawn = threading.Thread(target=lambda: shown.append(render(diagnostic)), daemon=True)
    drawn.start()
    drawn.join(5)
    assert shown == [f"error[E606]: no\n --> {fifo}:2:1\nhint: yes"]


@pytest.mark.parametrize("file", ["fifo", "/dev/zero", "large"])
def test_certificates_and_keys(tmp_path: Path, fifo: Path, file: str) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    (tmp_path / "pem").write_text("x")
    place, other = str(tmp_path / file), str(tmp_path / "pem")
    for opened in (
        lambda: commands._tls(place, other),
        lambda: commands._tls(other, place),
        lambda: keeper._tls(place, None),
    ):
        with pytest.raises(Conflict, match=r" is no regular file|: a PEM file has at most "):
            opened()


def test_a_private_key_that_needs_a_password(monkeypatch: pytest.MonkeyPatch, fifo: Path) -> None:
    """OpenSSL asks the terminal for one, and waits, unless it is given."""
    given: dict[str, Any] = {}
    chain = lambda *_, **named: given.update(named)
    monkeypatch.setattr(
        "ssl.create_default_context", lambda *_: SimpleNamespace(load_cert_chain=chain)
    )
    pem = fifo.with_name("pem")
    pem.write_text("x")
    commands._tls(str(pem), str(pem))
    assert given == {"password": ""}


@pytest.mark.parametrize("what", ["receipt", "folder of keys"])
def test_a_pipe_in_the_place_of_a_file_or_folder(tmp_path: Path, what: str) -> None:
    """Left beside a receipt, or named as the folder of keys."""
    place = tmp_path / f".r.{'0' * 16}.new"
    os.mkfifo(place)
    used = lambda: read_receipt(tmp_path / "r", b"") if what == "receipt" else settle_keys(place)
    begun = threading.Thread(target=used, daemon=True)
    begun.start()
    begun.join(5)
    assert not begun.is_alive()


def test_files_of_a_map_with_nothing_behind_them(tmp_path: Path) -> None:
    """A terabyte of zeros is neither read nor taken."""
    state = MapState.__new__(MapState)
    state.folder = tmp_path
    for name in ("synced", "log"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1 << 33)
    assert state._synced() == ("", 0)
    with pytest.raises(StateError, match=r"record 0: it was changed$"):
        MapState.content(tmp_path / "log")


def test_an_entry_of_the_cache_with_nothing_behind_it(tmp_path: Path) -> None:
    publish(b"text", tmp_path / "entry")
    assert text_of(tmp_path / "entry") == "text"
    os.truncate(tmp_path / "entry", 1 << 40)
    assert text_of(tmp_path / "entry") is None


@pytest.mark.parametrize("exponent", ["9" * 400, "1e999"])
def test_exponents_without_end(tmp_path: Path, exponent: str) -> None:
    (tmp_path / "k.psk").write_text(_LOGISTIC.format(f"y ** {exponent}"))
    with pytest.raises(KernelError) as caught:
        load_kernel(tmp_path / "k.psk").check()
    assert caught.value.diagnostic.hint == "write exp(b * log(a)) for a positive base"


def test_exceptions_that_make_no_text(tmp_path: Path) -> None:
    text = "class E(Exception):\n    def __str__(self): raise ValueError\nraise E\n"
    (tmp_path / "k.py").write_text(text)
    with pytest.raises(KernelError, match="failed: E\n") as caught:
        load_kernel(tmp_path / "k.py")
    assert caught.value.code == "E106"


@pytest.mark.parametrize("kind", ["index", "npy", "safetensors"])
def test_what_begins_otherwise_is_not_read(tmp_path: Path, kind: str) -> None:
    """A terabyte, of which the first bytes say that it is something else."""
    file = tmp_path / f"f.{kind}"
    file.touch()
    os.truncate(file, 1 << 33)
    with pytest.raises(ps.Error, match=f"{re.escape(str(file))} is not .*: it begins with other"):
        if kind == "index":
            ps.LearnedIndex.load(file)
        elif kind == "safetensors":
            (tmp_path / "config.json").write_text("{}")
            ps.LanguageModel.load(tmp_path)
        else:
            (tmp_path / "k.psk").write_text(_LOGISTIC.format("y"))
            ps.compile(str(tmp_path / "k.psk"), "small", dims={"d": 2}, init={"w": str(file)})


@pytest.mark.parametrize(
    "more",
    [
        {"padding": {"strategy": {"Fixed": 10**12}, "pad_id": 0}},
        {"truncation": {"max_length": 1, "stride": 5}},
    ],
)
def test_a_tokenizer_that_pads_or_cuts(tmp_path: Path, more: dict[str, Any]) -> None:
    """A prompt is taken as it is: padding of a terabyte would end the process."""
    source = Path(__file__).parents[1] / "pim/checkpoints/mamba2"
    said = json.loads((source / "tokenizer.json").read_text())
    padding = {"direction": "Right", "pad_type_id": 0, "pad_token": "x"}
    cut = {"direction": "Right", "strategy": "LongestFirst"}
    said |= {
        name: {**value, **(padding if name == "padding" else cut)} for name, value in more.items()
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    exact = language._tokenizer(source).encode("In the").ids
    assert language._tokenizer(tmp_path).encode("In the").ids == exact


@pytest.mark.parametrize("limit", [[float("nan"), 1.0], ["0", "1"], [1.0, 0.5], [10**400, 1]])
def test_limits_of_steps_that_are_no_numbers(tmp_path: Path, limit: list[Any]) -> None:
    source = Path(__file__).parents[1] / "pim/checkpoints/mamba2"
    (tmp_path / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    said = json.loads((source / "config.json").read_text()) | {"time_step_limit": limit}
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(ps.Error, match=r"time_step_limit is|has more than 1023 bits") as caught:
        ps.LanguageModel.load(tmp_path)
    assert caught.value.code == "E468"
