"""All readers of the product: a file from outside comes in through `models.inputs` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_DOOR = "models/inputs.py"
#: what reads a file, or takes apart what came out of one: methods of any object, and functions of a module
_METHODS = {"read_bytes", "read_text", "read_table", "fromfile", "memmap", "memory_map"}
_FUNCTIONS = {
    "json": {"load", "loads"},
    "tomllib": {"load", "loads"},
    "pickle": {"load", "loads"},
    "np": {"load", "loadtxt", "genfromtxt", "fromfile"},
    "os": {"open"},
    "zipfile": {"ZipFile"},
    "parquet": {"ParquetFile", "read_table"},
    "feather": {"read_table"},
    "ipc": {"open_file", "open_stream"},
    "arrow": {"read_csv"},
    "safetensors": {"deserialize"},
    "Tokenizer": {"from_file", "from_str"},
}
_PACKAGE = "it comes with Penstock, or with a tool that is installed"
_MADE = "this process, or a tool that it has just run, wrote it"
_SEALED = "Penstock wrote it into its cache, and compares a digest before it is used"
_PIPE = "what another process of the same command, or the server's, has sent"
_OPENED = "within `Input.parsing`, from a file that `Input.open` has opened"
_WRITTEN = "it is written, locked or synced, not read"
_SYSTEM = "the system wrote it"
#: by file, or by file and function: why it reads in another way
_REASONS = {
    "boards/build.py _build": _MADE,
    "boards/build.py _kept": _SEALED,
    "boards/flow.py": _MADE,
    "boards/netlist.py synthesise": _MADE,
    "boards/vendor.py texts": _PACKAGE,
    "dsl/core/codes.py": _PACKAGE,
    "dsl/core/python.py _remade": _PIPE,
    "dsl/core/text.py _parser": _PACKAGE,
    "host/device/emulation.py tapped": _SYSTEM,
    "host/learned_index/snapshot.py _replace": _WRITTEN,
    "host/omap/disk.py Disk.create": _WRITTEN,
    "host/omap/keyfiles.py": _WRITTEN,
    "host/omap/process.py run_device": _PIPE,
    "host/omap/receipts.py _sweep": _WRITTEN,
    "host/omap/state.py MapState._locked": _WRITTEN,
    "host/omap/state.py MapState.begin": _WRITTEN,
    "host/omap/state.py MapState._replace": _MADE,
    "host/omap/state.py MapState._sync_folder": _WRITTEN,
    "host/peers.py _rapl": _SYSTEM,
    "host/sources/files.py _bytes": _OPENED,
    "host/sources/files.py _read_arrow": _OPENED,
    "host/sources/files.py _read_parquet": _OPENED,
    "host/sources/files.py open_csv.read": _OPENED,
    "models/memory/dram/presets.py _read": _PACKAGE,
    "models/target.py": _PACKAGE,
    "sim/native/store.py": _SEALED,
    "sim/staging.py": _WRITTEN,
    "sim/native/toolchain.py": _PACKAGE,
    "sim/netlist/cells.py": _PACKAGE,
    "src/penstock/cache.py digest_of": _PACKAGE,
    "src/penstock/cli.py main": _WRITTEN,
    "src/penstock/engines/analytics/in_c.py _Writer.text": _PACKAGE,
    "src/penstock/engines/omap/native.py _library": _PACKAGE,
    "src/penstock/engines/omap/scan.py _library": _PACKAGE,
    "src/penstock/engines/omap/scan.py flags": _SYSTEM,
    "src/penstock/engines/pim/models/language.py _tokenizer": _OPENED,
    "src/penstock/engines/pim/models/weights.py _stored": _OPENED,
    "src/penstock/engines/qr/refit_c.py _built": _PACKAGE,
    "src/penstock/export/flows.py": _PACKAGE,
    "src/penstock/export/regtools.py register_files": _MADE,
    "src/penstock/output.py _sync": _WRITTEN,
    "src/penstock/output.py as_npz": _WRITTEN,
    "src/penstock/report/html.py _text": _PACKAGE,
    "src/penstock/report/papers.py figures": _PACKAGE,
    "src/penstock/sql/install.py _text": _PACKAGE,
    "src/penstock/sql/server.py": _PIPE,
    "src/penstock/sql/worker.py _line": _PIPE,
    "src/penstock/sweeps/crews.py": _PIPE,
    "src/penstock/sweeps/explore.py computed": _SEALED,
    "src/penstock/sweeps/points.py code_of": _PACKAGE,
}


def _reads(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield the function and the call of each place where something is read."""
    for node in ast.iter_child_nodes(tree):
        name = inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{node.name}" if inside else node.name
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id == "open":
                yield name, "open"
            if isinstance(called, ast.Attribute):
                of = called.value
                module = of.id if isinstance(of, ast.Name) else ""
                mode = node.args[0] if node.args else None
                opens = isinstance(mode, ast.Constant) and str(mode.value).strip("btU+") == "r"
                if called.attr == "open" and opens:
                    yield name, "open"
                if called.attr in _METHODS or called.attr in _FUNCTIONS.get(module, ()):
                    yield name, f"{module}.{called.attr}"
        yield from _reads(node, name)


def _all(root: Path) -> Iterator[tuple[str, str]]:
    for package in ("src", "dsl", "hdl", "host", "models", "sim", "boards"):
        for file in sorted((root / package).rglob("*.py")):
            place = file.relative_to(root).as_posix()
            if place != _DOOR:
                for function, call in _reads(ast.parse(file.read_bytes())):
                    yield f"{place} {function}".strip(), call


def _unknown(root: Path) -> list[str]:
    """Return the places that read in another way without a reason."""
    places = {place for place, _ in _all(root)}
    return sorted(p for p in places if p not in _REASONS and p.partition(" ")[0] not in _REASONS)


def test_all_readers_use_the_one_way_in() -> None:
    places = {place for place, _ in _all(ROOT)}
    used = places | {place.partition(" ")[0] for place in places}
    assert _unknown(ROOT) == []
    assert sorted(_REASONS.keys() - used) == []  # reasons of readers that are gone


@pytest.mark.parametrize(
    "line",
    [
        "json.loads(text)",
        "json.load(file)",
        "tomllib.load(file)",
        "np.load(place)",
        "open(place)",
        "os.open(place, 0)",
        "place.open('rb')",
        "place.read_bytes()",
        "Path(place).read_text()",
        "parquet.read_table(place)",
        "pickle.loads(text)",
        "zipfile.ZipFile(place)",
        "np.fromfile(place)",
        "safetensors.deserialize(text)",
    ],
)
def test_a_planted_reader_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/odd.py").write_text(f"def read(place):\n    return {line}\n")
    assert _unknown(tmp_path) == ["host/odd.py read"]
