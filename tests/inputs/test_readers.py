"""All readers of the product: a file from outside comes in through `models.inputs` alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_DOOR = "models/inputs.py"
#: names under which Python and other packages read a file, or take apart what came out of one
_VERBS = (
    "open|load|loads|read|parse|scan|connect|reader|mmap|memmap|fromfile|fromstring|deserialize"
)
_READS = re.compile(rf"([a-zA-Z]+_)?({_VERBS})(_\w+)?")
_NAMES = {
    *("CDLL", "ConfigParser", "DictReader", "FileIO", "JSONDecoder", "OSFile", "ParquetDataset"),
    *("ParquetFile", "TarFile", "Unpickler", "ZipFile", "dataset", "input_stream", "loadtxt"),
    *("fdopen", "genfromtxt", "from_file", "from_str", "urlopen", "run_path", "getline"),
    *("getlines", "spec_from_file_location", "copyfile", "copytree", "copy2", "copyfileobj"),
    *("create_default_context",),
}
#: methods of any object that do
_METHODS = {
    *("read_bytes", "read_text", "read_table", "read_csv", "read_parquet", "fromfile", "memmap"),
    *("memory_map", "load_cert_chain", "load_verify_locations", "from_file"),
}
#: packages of which nothing named so reads a file
_HARMLESS = {"amaranth", "click", "collections", "dataclasses", "penstock", "re", "typing"}
_PACKAGE = "it comes with Penstock, or with a tool that is installed"
_MADE = "this process, or a tool that it has just run, wrote it"
_SEALED = "Penstock wrote it into its cache, and compares a digest before it is used"
_PIPE = "what another process of the same command, or the server's, has sent"
_OPENED = "within `Input.parsing`, from a file that `Input.open` has opened"
_WRITTEN = "it is written, locked or synced, not read"
_SYSTEM = "the system wrote it"
_RUN = "Python has run this file, or `Input` has read it"
_LOOKED = "`Input.data` has looked at it before"
_NAME = "it opens no file: a session has this name"
_TEXT = "a text that is given; what is read is looked at, and never run"
_SERVER = "a server, whose answers its driver reads"
#: by file, function and what it calls: why it reads in another way
_REASONS = {
    "boards/build.py _build .read_bytes": _MADE,
    "boards/build.py _kept json.loads": _SEALED,
    "boards/flow.py _open_carries .read_text": _MADE,
    "boards/flow.py _open_carries json.loads": _MADE,
    "boards/flow.py _place .read_bytes": _MADE,
    "boards/flow.py _place .read_text": _MADE,
    "boards/flow.py _place json.loads": _MADE,
    "boards/flow.py synthesise .read_text": _MADE,
    "boards/flow.py synthesise json.loads": _MADE,
    "boards/netlist.py synthesise .read_text": _MADE,
    "boards/vendor.py texts .read_text": _PACKAGE,
    "dsl/core/codes.py _title .read_text": _PACKAGE,
    "dsl/core/codes.py document .read_text": _PACKAGE,
    "dsl/core/codes.py explain .read_text": _PACKAGE,
    "dsl/core/diagnostics.py _excerpt linecache.getlines": _LOOKED,
    "dsl/core/places.py _characters linecache.getline": _RUN,
    "dsl/core/places.py _line_span linecache.getline": _RUN,
    "dsl/core/places.py _parse ast.parse": _RUN,
    "dsl/core/places.py _users linecache.getline": _RUN,
    "dsl/core/places.py name_span linecache.getline": _RUN,
    "dsl/core/places.py names linecache.getline": _RUN,
    "dsl/core/places.py says linecache.getline": _RUN,
    "dsl/core/places.py tree linecache.getlines": _RUN,
    "dsl/core/python.py _declared linecache.getlines": _RUN,
    "dsl/core/python.py _remade pickle.loads": _PIPE,
    "dsl/core/text.py _parser .read_text": _PACKAGE,
    "host/device/serial_client.py _Wire._readable os.read": _SYSTEM,
    "host/device/emulation.py tapped os.open": _SYSTEM,
    "host/device/emulation.py tapped os.read": _SYSTEM,
    "host/learned_index/snapshot.py _replace open": _WRITTEN,
    "host/omap/disk.py Disk.create os.open": _WRITTEN,
    "host/omap/keyfiles.py _alone os.open": _WRITTEN,
    "host/omap/keyfiles.py _publish os.fdopen": _WRITTEN,
    "host/omap/keyfiles.py _publish os.open": _WRITTEN,
    "host/omap/process.py run_device json.loads": _PIPE,
    "host/omap/state.py MapState._locked os.open": _WRITTEN,
    "host/omap/state.py MapState._replace .read_bytes": _MADE,
    "host/omap/state.py MapState._sync_folder os.open": _WRITTEN,
    "host/omap/state.py MapState.begin os.open": _WRITTEN,
    "host/peers.py _rapl .read_text": _SYSTEM,
    "host/sources/files.py _bytes numpy.fromfile": _OPENED,
    "host/sources/files.py _check_quotes csv.reader": _OPENED,
    "host/sources/files.py _read_arrow pyarrow.feather.read_table": _OPENED,
    "host/sources/files.py _read_arrow pyarrow.ipc.open_stream": _OPENED,
    "host/sources/files.py _read_parquet pyarrow.parquet.ParquetFile": _OPENED,
    "host/sources/files.py open_csv csv.reader": _OPENED,
    "host/sources/files.py open_csv.read pyarrow.csv.read_csv": _OPENED,
    "host/sources/postgres/counting.py _count psycopg.connect": _SERVER,
    "host/sources/postgres/source.py open_postgres.connect psycopg.connect": _SERVER,
    "host/sources/postgres/writing.py write_models psycopg.connect": _SERVER,
    "models/memory/dram/presets.py _read .read_text": _PACKAGE,
    "models/memory/dram/presets.py _read tomllib.loads": _PACKAGE,
    "models/target.py .read_text": _PACKAGE,
    "models/target.py tomllib.loads": _PACKAGE,
    "sim/board.py _Clocked.__init__ ctypes.CDLL": _SEALED,
    "sim/memory/dram.py _library ctypes.CDLL": _SEALED,
    "sim/native/library.py Library.load ctypes.CDLL": _SEALED,
    "sim/native/store.py _content os.fdopen": _SEALED,
    "sim/native/store.py _content os.open": _SEALED,
    "sim/native/store.py _locked os.open": _SEALED,
    "sim/native/toolchain.py _build .read_bytes": _PACKAGE,
    "sim/native/toolchain.py _parts .read_text": _PACKAGE,
    "sim/native/toolchain.py _prepare .read_bytes": _PACKAGE,
    "sim/native/toolchain.py _shared .read_bytes": _PACKAGE,
    "sim/native/toolchain.py build_library .read_text": _PACKAGE,
    "sim/native/toolchain.py build_plain .read_text": _PACKAGE,
    "sim/netlist/cells.py _read .read_text": _PACKAGE,
    "sim/netlist/cells.py cell_models .read_text": _PACKAGE,
    "sim/serial.py SerialServer._loop os.read": _PIPE,
    "sim/staging.py _new os.open": _WRITTEN,
    "sim/staging.py _remove os.open": _WRITTEN,
    "sim/staging.py sync os.open": _WRITTEN,
    "src/penstock/designs/cache.py digest_of .read_bytes": _PACKAGE,
    "src/penstock/cli/main.py main os.open": _WRITTEN,
    "src/penstock/cli/completion.py kernels ast.parse": _OPENED,
    "src/penstock/design.py Design open": _NAME,
    "src/penstock/passes/form_text.py read ast.parse": _TEXT,
    "src/penstock/engines/analytics/in_c.py InC.__init__ ctypes.CDLL": _SEALED,
    "src/penstock/engines/analytics/in_c.py _Writer.text .read_text": _PACKAGE,
    "src/penstock/engines/omap/commands.py _tls .load_cert_chain": _LOOKED,
    "src/penstock/engines/omap/commands.py _tls ssl.create_default_context": _LOOKED,
    "src/penstock/engines/omap/keeper.py _tls ssl.create_default_context": _LOOKED,
    "src/penstock/engines/omap/native.py NativeKept.library ctypes.CDLL": _SEALED,
    "src/penstock/engines/omap/native.py _library .read_text": _PACKAGE,
    "src/penstock/engines/omap/native.py _library ctypes.CDLL": _SEALED,
    "src/penstock/engines/omap/scan.py _library .read_text": _PACKAGE,
    "src/penstock/engines/omap/scan.py _library ctypes.CDLL": _SEALED,
    "src/penstock/engines/omap/scan.py flags .read_text": _SYSTEM,
    "src/penstock/engines/pim/golden.py _library ctypes.CDLL": _SEALED,
    "src/penstock/engines/pim/models/language.py _tokenizer tokenizers.Tokenizer.from_str": _OPENED,
    "src/penstock/engines/pim/models/weights.py _stored safetensors.deserialize": _OPENED,
    "src/penstock/engines/qr/refit_c.py _built .read_text": _PACKAGE,
    "src/penstock/engines/qr/refit_c.py _built ctypes.CDLL": _SEALED,
    "src/penstock/export/flows.py Flow.check .read_text": _PACKAGE,
    "src/penstock/export/flows.py rendered .read_text": _PACKAGE,
    "src/penstock/export/regtools.py register_files .read_bytes": _MADE,
    "src/penstock/output.py as_npz zipfile.ZipFile": _WRITTEN,
    "src/penstock/report/html.py _text .read_text": _PACKAGE,
    "src/penstock/report/papers.py figures .read_text": _PACKAGE,
    "src/penstock/report/papers.py figures tomllib.loads": _PACKAGE,
    "src/penstock/sql/install.py _text .read_text": _PACKAGE,
    "src/penstock/sql/install.py _transaction psycopg.connect": _SERVER,
    "src/penstock/sql/server.py Worker.answer json.loads": _PIPE,
    "src/penstock/sql/server.py Worker.answer os.read": _PIPE,
    "src/penstock/sql/server.py train json.loads": _PIPE,
    "src/penstock/sql/worker.py _alone sys.stdin.buffer.read": _PIPE,
    "src/penstock/sql/worker.py _line json.loads": _PIPE,
    "src/penstock/sql/worker.py _read sys.stdin.buffer.read": _PIPE,
    "src/penstock/sweeps/crews.py _prepare pickle.loads": _PIPE,
    "src/penstock/sweeps/crews.py serve .read_bytes": _PIPE,
    "src/penstock/sweeps/crews.py serve pickle.loads": _PIPE,
    "src/penstock/sweeps/explore.py computed json.loads": _SEALED,
    "src/penstock/sweeps/points.py code_of .read_text": _PACKAGE,
    "src/penstock/sweeps/results.py table_of pyarrow.json.read_json": _MADE,
}


def _imported(tree: ast.AST) -> dict[str, str]:
    """Return what the names of a file that come from other packages mean."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                names[one.asname or first] = one.name if one.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return {name: of for name, of in names.items() if of.partition(".")[0] not in _HARMLESS}


def _dotted(node: ast.AST) -> list[str]:
    """Return the parts of `a.b.c`, of anything else none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def _opens(node: ast.AST) -> bool:
    """Return whether `x.open(…)` is that of a path."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    mode = node.args[0] if node.args else None
    plain = isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rbtU+")
    named = {"mode", "encoding", "errors", "newline"} & {one.arg for one in node.keywords}
    return node.func.attr == "open" and (plain or bool(named) or not (node.args or node.keywords))


def _read(node: ast.AST, names: Mapping[str, str]) -> str:
    """Return what reads a file here, or is named that does; "" where nothing is."""
    parts = _dotted(node)
    if parts and parts[0] in names:
        whole = ".".join([names[parts[0]], *parts[1:]])
        last = whole.rpartition(".")[2]
        reads = _READS.fullmatch(last) or last in _NAMES | _METHODS
        return whole if "." in whole and reads else ""
    if isinstance(node, ast.Attribute) and node.attr in _METHODS:
        return f".{node.attr}"
    return "open" if parts == ["open"] else ".open" if _opens(node) else ""


def _reads(node: ast.AST, names: Mapping[str, str], inside: str = "") -> Iterator[str]:
    """Yield each place that reads: the function, and what it calls."""
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}" if inside else child.name
        if read := _read(child, names):
            yield f"{name} {read}".strip()
        yield from _reads(child, names, name)


def _all(root: Path) -> Iterator[str]:
    for package in ("src", "dsl", "hdl", "host", "models", "sim", "boards"):
        for file in sorted((root / package).rglob("*.py")):
            place = file.relative_to(root).as_posix()
            if place != _DOOR:
                tree = ast.parse(file.read_bytes())
                for read in _reads(tree, _imported(tree)):
                    yield f"{place} {read}"


def test_all_readers_use_the_one_way_in() -> None:
    places = set(_all(ROOT))
    assert sorted(places - _REASONS.keys()) == []
    assert sorted(_REASONS.keys() - places) == []  # reasons of readers that are gone


#: of all kinds, the last one as `main` there has it with a reason
_PLANTED = """
json.loads(text) | json.load(file) | loads(text) | tomllib.load(file) | np.load(place) | open(place)
np.lib.format.open_memmap(place) | list(map(open, [place])) | os.open(place, 0) | place.open()
place.open('rb') | place.open(encoding='utf-8') | Path.open(place) | place.read_bytes()
Path(place).read_text() | parquet.read_table(place) | pq.ParquetFile(place) | dataset.dataset(place)
pa.memory_map(place) | pd.read_csv(place) | pickle.loads(text) | zipfile.ZipFile(place)
gzip.open(place) | np.fromfile(place) | safetensors.deserialize(text) | safe_open(place)
sqlite3.connect(place) | yaml.safe_load(text) | ElementTree.parse(place) | csv.DictReader(file)
mmap.mmap(file, 0) | linecache.getlines(place) | context.load_cert_chain(place)
shutil.copyfile(place, other)
"""
_IMPORTS = """
import csv, gzip, json, linecache, mmap, os, pickle, shutil, sqlite3, tomllib, yaml, zipfile
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.parquet as pq, safetensors
from json import loads
from pathlib import Path
from pyarrow import dataset, parquet
from safetensors import safe_open
from xml.etree import ElementTree
"""


@pytest.mark.parametrize("place", ["host/odd.py", "src/penstock/cli/main.py", "models/target.py"])
def test_a_planted_reader_is_found(tmp_path: Path, place: str) -> None:
    """Also in a file that reads something else with a reason, and in the function that does."""
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    for line in _PLANTED.replace("\n", " | ").strip(" |").split(" | "):
        file.write_text(f"{_IMPORTS}def main(place):\n    return {line}\n")
        found = set(_all(tmp_path)) - _REASONS.keys()
        if (place, line) == ("src/penstock/cli/main.py", "os.open(place, 0)"):
            assert not found  # what it does there
        else:
            assert found and all(one.startswith(f"{place} main ") for one in found), line
