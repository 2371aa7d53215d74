"""The command lines of the corpus, in groups; each is run in a folder that `inputs` fills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["GROUPS", "inputs"]

KERNELS = {
    "k.py": """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
""",
    "until.py": """import penstock as ps

@ps.kernel(epochs=40, init={"w": 0.25})
def until(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    step = ps.merge((ps.sum(w * x) - y) * x) / 8
    ps.until(ps.norm(step) < 0.5)
    return w - rate * step
""",
    "keys.py": """import penstock as ps

@ps.fit
def counts(key: ps.Key):
    return ps.least_squares(ps.window(key, 3), target=ps.rank(key))

@ps.fit(method="gram", incremental=True)
def gaps(key: ps.Key):
    return ps.least_squares(ps.window(key, 3), target=ps.slot(key))
""",
    "columns.psk": "fit columns(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n",
    "two.py": """import penstock as ps

@ps.kernel
def a(x: ps.Input["d"], w: ps.Model["d"]):
    return w + ps.merge(x, 2)

@ps.kernel
def b(x: ps.Input["d"], w: ps.Model["d"]):
    return w - ps.merge(x, 2)
""",
    "wrong.py": """import penstock as ps

@ps.kernel
def wrong(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
    if ps.sum(w * x) > y:
        return w
    return w - x
""",
    "wrong.psk": "kernel wrong(x: input[d], w: model[d])\n  w <- w + nosuch(x)\n",
    "shapes.psk": "kernel shapes(x: input[4], y: input[5], w: model[4])\n  w <- w + x + y\n",
}


def inputs(folder: Path, repository: Path) -> None:
    """Fill a folder with the examples, kernels and tables that the cases name."""
    shutil.copytree(repository / "examples", folder / "examples")
    for name, text in KERNELS.items():
        (folder / name).write_text(text)
    random = np.random.default_rng(1)
    rows = random.uniform(-1, 1, (40, 3)).round(3)
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    (folder / "table.csv").write_text("y,a,b\n" + "\n".join(lines) + "\n")
    (folder / "nulls.csv").write_text("y,a,b\n1,2,3\n0,3,4\n,5,6\n" + "\n".join(lines) + "\n")
    (folder / "nan.csv").write_text("y,a,b\n1,2,3\n0,nan,4\n1,5,6\n" + "\n".join(lines) + "\n")
    (folder / "huge.csv").write_text("y,a,b\n1,2,3\n0,1e9,4\n1,5,6\n" + "\n".join(lines) + "\n")
    (folder / "empty.csv").write_text("")
    (folder / "text.csv").write_text("y,a\n1,red\n2,blue\n")
    keys = sorted(
        {
            f"{prefix}{number:03d}"
            for prefix in ("ab", "q", "zz")
            for number in random.integers(0, 999, 60).tolist()
        }
    )
    random.shuffle(keys)
    (folder / "keys.csv").write_text("url\n" + "\n".join(keys) + "\n")
    np.savez(folder / "table.npz", y=rows[:, 0], x=rows[:, 1:].astype(np.float32))
    np.save(folder / "start.npy", np.array([0.5, -0.5]))
    (folder / "junk.npz").write_bytes(bytes(range(256)))
    (folder / "junk.heap").write_bytes(bytes(range(256)))
    (folder / "schema.json").write_text(json.dumps({"columns": [{"name": "y", "type": "float4"}]}))
    torn = bytearray((repository / "examples/data/iris.heap").read_bytes())
    torn[8192 + 12 : 8192 + 14] = b"\x01\xff"  # pd_lower of block 1
    (folder / "torn.heap").write_bytes(torn)
    shutil.copy(repository / "examples/data/iris.json", folder / "iris.json")


def _heap(name: str) -> str:
    return f"heap:examples/data/{name}.heap,examples/data/{name}.json"


#: (kernel, its sizes, a small table): those that learn row by row
ROWS = [
    ("examples/linear.py", "--dim d=2", "random:rows=20,seed=1"),
    ("examples/linear.psk", "--dim d=2", "random:rows=20,seed=1"),
    ("examples/logistic.py", "--dim d=3", "random:rows=20,seed=2"),
    ("examples/logistic.psk", "--dim d=3", "random:rows=20,seed=2"),
    ("examples/ridge.py", "--dim d=2", "random:rows=20,seed=3"),
    ("examples/svm.py", "--dim d=3", "random:rows=20,seed=4"),
    ("examples/lrmf.py", "--dim m=3 --dim n=4 --dim k=2", "random:rows=12,seed=5"),
    ("examples/mlp.py", "--dim d=3 --dim h=2", "random:rows=20,seed=6"),
    ("until.py", "--dim d=2", "random:rows=20,seed=7"),
    ("k.py", "", "table.csv"),
    ("k.py", "", "table.npz"),
]
#: those that fit columns, and those that fit keys
COLUMNS = [
    ("examples/closed_form.py", "--dim d=2", "random:rows=30,seed=1"),
    ("examples/closed_form.psk", "--dim d=3", "random:rows=30,seed=1"),
    ("columns.psk", "", "table.csv"),
]
KEYS = [
    ("examples/rank_model.py:rank_model", "", "random:rows=300,seed=1"),
    ("examples/rank_model.py:slots", "", "random:rows=300,seed=1"),
    ("examples/rank_model.psk", "", "random:rows=300,seed=1"),
    ("keys.py:counts", "--bind key=url", "keys.csv"),
    ("keys.py:gaps", "--bind key=url", "keys.csv"),
]
TABLES = [
    ("examples/linear.py", "diabetes"),
    ("examples/ridge.py", "diabetes"),
    ("examples/logistic.py", "cancer"),
    ("examples/svm.py", "cancer_svm"),
    ("examples/logistic.py", "iris"),
    ("examples/mlp.py --dim h=2", "iris"),
    ("examples/lrmf.py --dim k=4", "ratings"),
    ("examples/closed_form.py --format fixed:5,12", "diabetes"),
    ("examples/closed_form.py", "cancer_columns"),
]
TARGETS = ("ulx3s-85f", "vu9p", "u55c", "icebreaker", "tang-nano-9k", "kcu105", "ulx3s-85f-sdram")
FORMATS = ("float32", "bfloat16", "float16", "fixed:8,24", "fixed:4,6")
SMALL = "--dim d=2 --format fixed:8,8 --threads 1 --lanes 1"


def check() -> Iterator[str]:
    for kernel, dims, table in [*ROWS, *COLUMNS, *KEYS]:
        plain = dims if "bind" not in dims else ""
        yield f"check {kernel}"
        yield f"check {kernel} {plain}"
        yield f"check {kernel} {dims} --data {table}"
        yield f"check {kernel} {dims} --target ulx3s-85f --format fixed:8,8"
    yield "check k.py --data table.csv --bind x=b,a --init w=start.npy --set rate=0.25"
    yield "check k.py --dim d=4 --set rate=0.001 --format fixed:8,8"
    yield from (
        "--version",
        "targets",
        "boards --json",
        "explain E614",
        "explain tuple_null",
        "--help",
        *(
            f"{command} --help"
            for command in ("check", "compile", "model", "simulate", "build", "program", "explain")
        ),
    )


def model() -> Iterator[str]:
    for kernel, dims, table in ROWS:
        yield f"model {kernel} {dims} --data {table} --profile"
        yield f"model {kernel} {dims or '--dim d=2'} --rows 1000 --format fixed:8,8"
    for target in TARGETS:
        yield f"model examples/logistic.py --rows 5000 --dim d=12 --target {target} --format fixed:8,8"
        yield f"model examples/closed_form.py --rows 5000 --dim d=4 --target {target} --format fixed:8,8"
        yield f"model keys.py:gaps --rows 2000 --target {target}"
    for form in FORMATS:
        yield f"model examples/logistic.py --rows 500 --dim d=6 --format {form}"
    for kernel, table in TABLES:
        yield f"model {kernel} --data {_heap(table)} --target vu9p"
    yield "model examples/logistic.py --rows 581102 --dim d=54 --target vu9p"
    yield "model examples/logistic.py --rows 581102 --dim d=54 --target u55c --ports 4 --threads 8"
    yield "model examples/logistic.py --rows 100 --dim d=54 --memory latency=70,bytes=4 --walkers 1"
    yield "model k.py --data nulls.csv --on-null skip --visibility all"
    for kernel, dims, table in [*COLUMNS, *KEYS]:
        yield f"model {kernel} {dims} --data {table} --groups {1 if 'key' not in kernel and 'rank' not in kernel else 2} --refits 2 --new 5 --gone 2"
        yield f"model {kernel} {dims if 'bind' not in dims and dims else '' if 'keys' in kernel or 'rank' in kernel else '--dim d=2'} --rows 800"
    yield "model keys.py:gaps --rows 400 --groups 3 --refits 0 --memory latency=90,bytes=8"
    yield "model examples/closed_form.py --dim d=3 --rows 400 --refits 3 --new 7 --gone 4 --on-null skip"


def compiled() -> Iterator[str]:
    for kernel, dims, table in [*ROWS[:9], *COLUMNS]:
        if kernel.endswith(".psk") and kernel != "columns.psk":
            continue
        yield f"compile {kernel} {dims} --data {table} --out made --format fixed:8,8"
    for target, options in (
        ("ulx3s-85f", ""),
        ("vu9p", "--threads 2 --lanes 2"),
        ("u55c", "--ports 2 --threads 4"),
        ("icebreaker", "--format fixed:6,6"),
    ):
        yield f"compile examples/logistic.py --dim d=3 --target {target} {options} --out made"
    yield "compile examples/closed_form.py --dim d=2 --target ulx3s-85f --out made"
    yield "compile keys.py:counts --out made --target ulx3s-85f"
    yield "compile keys.py:gaps --out made --target vu9p"


def simulate() -> Iterator[str]:
    for kernel, dims, table in ROWS:
        if kernel.endswith(".psk") or table == "table.npz":
            continue
        yield f"simulate {kernel} {dims} --data {table} --format fixed:8,8 --profile"
    yield "simulate examples/logistic.py --dim d=3 --data random:rows=40,seed=9 --format bfloat16 --target vu9p --threads 2 --lanes 2"
    yield "simulate k.py --data table.npz --format fixed:8,8 --init w=start.npy --set rate=0.25 --epochs 3"
    for table in ("nulls.csv", "nan.csv", "huge.csv", "nulls.csv --on-null skip"):
        yield f"simulate k.py --data {table} --format fixed:8,8"
    yield "simulate examples/linear.py --data heap:torn.heap,iris.json --format fixed:8,8"
    yield "simulate examples/closed_form.py --dim d=2 --data random:rows=30,seed=1 --target ulx3s-85f --refits 2 --new 5 --gone 3"
    yield "simulate columns.psk --data table.csv --target ulx3s-85f --refits 1 --new 4"
    for table in ("nulls.csv", "nan.csv", "huge.csv", "nulls.csv --on-null skip"):
        yield f"simulate columns.psk --data {table} --target ulx3s-85f --refits 1 --new 4"
    yield "simulate keys.py:counts --bind key=url --data keys.csv --target ulx3s-85f --groups 2 --refits 2 --new 6 --gone 3"
    yield "simulate keys.py:gaps --bind key=url --data keys.csv --target ulx3s-85f --groups 2 --refits 2 --new 6 --gone 3"


def backends() -> Iterator[str]:
    fits = [
        "keys.py:counts --bind key=url --data keys.csv --groups 2 --refits 1 --new 4",
        "keys.py:gaps --bind key=url --data keys.csv --groups 2 --refits 1 --new 4",
        "examples/rank_model.py:slots --data random:rows=300,seed=3 --groups 2 --refits 1",
        "examples/rank_model.py:rank_model --data random:rows=300,seed=3 --groups 2 --refits 1",
        "examples/closed_form.py --dim d=2 --data random:rows=30,seed=1 --refits 1 --new 4",
        "columns.psk --data nan.csv",
    ]
    for fit in fits:
        yield f"simulate {fit} --backend golden"
        yield f"simulate {fit} --backend model"
    yield f"simulate {fits[1]} --target ulx3s-85f --backend pysim"
    yield "simulate examples/closed_form.py --dim d=1 --data random:rows=8,seed=1 --refits 0 --target ulx3s-85f --backend pysim"
    for backend in ("golden", "model", "pysim"):
        yield f"simulate k.py --data table.csv --backend {backend}"
    yield f"simulate k.py {SMALL} --data random:rows=12,seed=1 --epochs 1 --backend netlist --target icebreaker"
    yield "simulate examples/closed_form.py --dim d=1 --data random:rows=8,seed=1 --refits 0 --target ulx3s-85f --backend netlist"
    yield "simulate k.py --dim d=2 --format fixed:8,8 --data random:rows=12,seed=1 --epochs 1 --target icebreaker --backend board"
    yield "simulate k.py --dim d=2 --format fixed:8,8 --data random:rows=12,seed=1 --epochs 1 --target ulx3s-25f --backend board"
    yield "simulate examples/closed_form.py --dim d=1 --data random:rows=8,seed=1 --refits 0 --target ulx3s-85f --backend board"
    yield "simulate keys.py:gaps --bind key=url --data keys.csv --groups 2 --refits 1 --new 4 --target ulx3s-85f --backend board"


def boards() -> Iterator[str]:
    """Builds that end with the RTLIL that would be synthesised, or with a vendor's project."""
    for board in (
        "ulx3s-12f",
        "ulx3s-25f",
        "ulx3s-45f",
        "ulx3s-85f",
        "orangecrab-r0.2",
        "colorlight-i5",
        "ecp5-evn",
        "icebreaker",
        "hx8k-evn",
        "tang-nano-9k",
        "crosslink-nx-evn",
        "ulx3s-25f-sdram",
        "ulx3s-85f-sdram",
        "arty-a7-100t",
        "kcu105",
        "u55c",
    ):
        yield f"build k.py --dim d=2 --format fixed:4,6 --board {board} --out made"
    yield "build examples/closed_form.py --dim d=2 --board ulx3s-85f --out made"
    yield "build keys.py:gaps --board ulx3s-85f --out made"


def build() -> Iterator[str]:
    """Builds to the bitstream."""
    yield "build k.py --dim d=1 --format fixed:4,4 --board icebreaker --out made"
    yield "build k.py --dim d=1 --format fixed:4,4 --board ulx3s-12f --out made"


def mistakes() -> Iterator[str]:
    yield from (
        "",
        "nosuch",
        "model",
        "compile k.py",
        "model k.py --rows many",
        "model k.py --threads 0",
        "model k.py --dim d",
        "model k.py",
        "simulate k.py",
        "check nofile.py",
        "check examples",
        "check two.py",
        "check two.py:c",
        "check wrong.py",
        "check wrong.psk",
        "check shapes.psk",
        "explain E999",
        "model k.py --rows 5",
        "model k.py --rows 5 --dim d=4 --target vup9",
        "model k.py --rows 5 --dim d=4 --format fixed:8.8",
        "check k.py --dim d=4 --format mx8",
        "model k.py --rows 5 --dim d=4 --memory latency=0",
        "check k.py --dim d=4 --ports 2",
        "check k.py --dim d=4 --threads 64",
        "check k.py --data table.csv --bind x=a,b --dim d=5",
        "check k.py --data table.csv --bind y=a,b",
        "check k.py --data table.csv --bind x=nosuch",
        "check k.py --data table.csv --bind z=a",
        "check k.py --data text.csv",
        "check k.py --dim d=3 --dim d=4",
        "model k.py --rows 5 --dim d=4 --set rat=1",
        "model k.py --data table.xlsx",
        "model k.py --data no.csv",
        "model k.py --data tabel.csv",
        "model k.py --data empty.csv",
        "model k.py --data junk.npz",
        "model k.py --data heap:junk.heap,schema.json",
        "model k.py --data random:rows=many --dim d=4",
        "model k.py --data nulls.csv",
        "model k.py --data nan.csv",
        "model k.py --rows 5 --dim d=4 --json examples",
        "compile k.py --dim d=4 --out k.py",
        "compile k.py --dim d=4 --out .",
        "simulate k.py --data random:rows=5 --dim d=4 --waves no/w.fst",
        "simulate k.py --data table.csv --family ecp5",
        "simulate k.py --data table.csv --device serial:/dev/nosuch",
        "simulate k.py --data table.csv --backend board --device serial:/dev/nosuch",
        "simulate k.py --data table.csv --backend netlist --family xilinx",
        "model k.py --rows 5 --dim d=4 --refits 2",
        "simulate k.py --data table.csv --groups 2",
        "simulate k.py --data table.csv --backend nosuch",
        "model keys.py:gaps --rows 100 --epochs 2",
        "model keys.py:gaps --rows 100 --dim d=2",
        "model keys.py:gaps --rows 100 --format fixed:8,8",
        "model keys.py:gaps",
        "simulate keys.py:gaps",
        "model keys.py:gaps --rows 100 --profile",
        "model keys.py:gaps --data table.csv",
        "model keys.py:gaps --data keys.csv --bind key=nosuch",
        "simulate keys.py:gaps --data keys.csv --bind key=url --waves w.vcd",
        "model keys.py:gaps --rows 100 --groups 200",
        "model keys.py:gaps --rows 100 --refits 9 --gone 50",
        "model keys.py:gaps --rows 100 --threads 2",
        "model keys.py:gaps --rows 100 --target small",
        "model examples/closed_form.py --rows 5",
        "model examples/closed_form.py --rows 5 --dim d=2 --gone 9",
        "model examples/closed_form.py --rows 5 --dim d=2 --groups 2",
        "model examples/closed_form.py --rows 5 --dim d=2 --epochs 2",
        "model examples/closed_form.py --rows 5 --dim d=200",
        "simulate examples/closed_form.py --data table.csv --profile",
        "model examples/closed_form.py --rows 5 --dim d=2 --target icebreaker",
        "simulate columns.psk --data text.csv",
        "build k.py --dim d=2 --board nosuch --out made",
        "build k.py --board icebreaker --out made",
        "build k.py --dim d=2 --target small --board icebreaker --out made",
        "build k.py --dim d=900 --board icebreaker --out made",
        "build k.py --dim d=2 --board arty-a7-100t --clock 90 --out made",
        "build k.py --dim d=2 --board ulx3s-12f --clock 61.7773 --out made",
        "build examples/closed_form.py --dim d=2 --board icebreaker --out made",
        "build keys.py:gaps --board ulx3s-12f --out made",
        "build examples/rank_model.py:slots --board ulx3s-85f --out made",
        "build k.py --dim d=2 --board icebreaker --memory bytes=2 --out made",
        "program examples --board icebreaker",
        "program examples --board arty-a7-100t",
    )


GROUPS = {
    "mistakes": mistakes,
    "check": check,
    "model": model,
    "compile": compiled,
    "boards": boards,
    "backends": backends,
    "simulate": simulate,
    "build": build,
}
