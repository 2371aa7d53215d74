"""The command line's messages, whole: what users get wrong, and what hardware reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.dsl.core.codes import codes
from penstock.engines.discovery import engines
from penstock.models.errors import ErrorCode, HardwareCode, HardwareError
from penstock.models.qr.shell import FitError
from penstock.models.strider.errors import PageError
from penstock.runs.failures import hardware_failure
from testbench.command_line import fill, told


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fill(tmp_path)
    return tmp_path


#: all that hardware may report
HARDWARE = [code for kind in (ErrorCode, PageError, FitError) for code in kind if code]


def usage(command: str, message: str) -> str:
    return f"error[E902]: {message}\n --> penstock{command}\nhint: penstock{command} --help lists what it takes\n"


def conflict(command: str, message: str, hint: str = "leave one of them out") -> str:
    return f"error[E902]: {message}\n --> penstock {command}\nhint: {hint}\n"


A_KERNEL = "hint: name a file with a kernel in it, such as linear.py or linear.psk; paths are taken from the current folder\n"

MESSAGES = [
    ("nosuch", usage("", "no such command 'nosuch'")),
    ("model", usage(" model", "missing argument 'KERNEL'")),
    ("compile k.py", usage(" compile", "missing option '--out'")),
    (
        "model k.py --rows many",
        usage(
            " model",
            "invalid value for '--rows': it must be a whole number from 1 to 1,099,511,627,776, not 'many'",
        ),
    ),
    (
        "model k.py --threads 0",
        usage(
            " model",
            "invalid value for '--threads': it must be a whole number from 1 to 256, not '0'",
        ),
    ),
    (
        "model k.py --dim d",
        usage(" model", "invalid value for '--dim': 'd' is not of the form d=54"),
    ),
    (
        "model k.py --on-null maybe",
        usage(" model", "invalid value for '--on-null': 'maybe' is not one of 'error', 'skip'"),
    ),
    (
        "model k.py",
        "error[E904]: model needs a table, or the number of rows\n --> penstock model\nhint: give --data SRC, or --rows N\n",
    ),
    (
        "simulate k.py",
        "error[E904]: simulate needs a table\n --> penstock simulate\n"
        "hint: give --data SRC, for example --data random:rows=1000\n",
    ),
    ("check nofile.py", f"error[E102]: there is no file nofile.py\n --> nofile.py\n{A_KERNEL}"),
    (
        "check folder",
        f"error[E108]: folder is not a kernel: its suffix must be .py or .psk\n --> folder\n{A_KERNEL}",
    ),
    ("check k.psk", "error[E102]: there is no file k.psk\n --> k.psk\nhint: did you mean k.py?\n"),
    (
        "explain E999",
        "error[E901]: there is no diagnostic E999\n --> explain\nhint: docs/reference/diagnostics.md says where they all are\n",
    ),
    (
        "model k.py --rows 5",
        "error[E505]: the size of dimension d is not known\n --> k.py:4:7\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |       ^^^^^^^^^^^^^^^^\nhint: give it with --dim d=SIZE\n',
    ),
    (
        "model k.py --rows 5 --dim d=4 --target vup9",
        "error[E602]: there is no target 'vup9'\n --> --target\nhint: did you mean vu9p?; or the name of a TOML file\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --format fixed:8.8",
        "error[E603]: 'fixed:8.8' is not a number format\n --> --format\nhint: write float32, bfloat16, float16 or fixed:I,F (as in fixed:8,24)\n",
    ),
    (
        "check k.py --dim d=4 --format fixed:8,40",
        "error[E603]: 'fixed:8,40': a fixed-point format has 2 to 32 bits, not 48\n --> --format\n"
        "hint: float32, bfloat16, float16 and fixed:8,24 are such formats\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --memory latency=0",
        "error[E604]: memory latency must be an integer from 1 to 1000000, not 0\n --> --memory\n"
        "hint: as in --memory latency=20,bytes=8, which is what small has\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --memory bytes=16",
        "error[E604]: a memory port of small is 8 bytes wide; it cannot carry 16 bytes a cycle\n"
        " --> --memory\nhint: write bytes=8, or choose a target with wider ports: kcu105, u55c, vu9p\n",
    ),
    (
        "check k.py --dim d=4 --format FLOAT32",
        "error[E603]: 'FLOAT32' is not a number format\n --> --format\nhint: did you mean float32?\n",
    ),
    (
        "check k.py:",
        "error[E104]: no kernel is named behind the colon of k.py:\n --> k.py\nhint: write k.py:f, or leave the colon out\n",
    ),
    (
        "check k.py/k.py",
        "error[E102]: k.py/k.py cannot be read: Not a directory\n --> k.py/k.py\n"
        "hint: name a file with a kernel in it, such as linear.py or linear.psk\n",
    ),
    (
        "check k.py --data random:rows=0",
        "error[E701]: random: rows must be at least 1 and seed at least 0\n --> random:rows=0\n"
        "hint: as in random:rows=1000,seed=1\n",
    ),
    (
        "check k.py --data random:rows=2000000000000",
        "error[E701]: random: 2000000000000 rows are too many: the most is 1099511627776\n"
        " --> random:rows=2000000000000\nhint: penstock model --rows N needs no table at all\n",
    ),
    (
        "check k.py --data random:rows=1,rows=2",
        "error[E701]: random: rows is given twice\n --> random:rows=1,rows=2\nhint: leave one of them out\n",
    ),
    (
        "check k.py --data random",
        "error[E701]: unknown data source 'random'\n --> random\nhint: is something missing behind random:? Known are: "
        "heap:FILE,SCHEMA.json · postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · FILE.arrow · FILE.feather · random:rows=1000,seed=1\n",
    ),
    (
        "check k.py --data http://x/y.csv",
        "error[E701]: unknown data source 'http://x/y.csv'\n --> http://x/y.csv\n"
        "hint: only postgresql:// is read over the network: fetch the file first\n",
    ),
    (
        "check k.py --data postgresql://[::1/db?table=t",
        "error[E701]: this is no address of a server: Invalid IPv6 URL\n"
        " --> postgresql://[::1/db?table=t\nhint: the form is postgresql://user@host/database?table=NAME, or ?query=SELECT … in place of the table\n",
    ),
    (
        "check k.py --data postgresql://eve@/db?table=\udcff",
        "error[E701]: this is no address of a server: 'utf-8' codec can't encode character '\\udcff' in position 27: surrogates not allowed\n"
        " --> postgresql://eve@/db?table=\ufffd\nhint: the form is postgresql://user@host/database?table=NAME, or ?query=SELECT … in place of the table\n",
    ),
    (
        "check k.py --data utf16.csv",
        "error[E703]: utf16.csv is not text\n --> utf16.csv\n"
        "hint: is it a CSV file? If it is, save it as UTF-8, not as UTF-16\n",
    ),
    (
        "compile k.py --dim d=4 --out " + 300 * "x",
        "error[E903]: nothing can be written there: File name too long\n --> output\nhint: choose another name\n",
    ),
    (
        "check k.py --json a\0b",
        "error[E903]: nothing can be written there: embedded null byte\n --> output\nhint: choose another name\n",
    ),
    (
        "check k.py --dim d=4 --ports 2",
        "error[E605]: no plan has any number of threads on 2 memory ports of small for batches of 4\n --> k.py:4:39\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 39
        * " "
        + "^^^^^^^^^^^^^^^^\n"
        "hint: small has 1 memory port: leave --ports out\n",
    ),
    (
        "check k.py --dim d=4 --threads 64",
        "error[E601]: kernel 'f' does not fit on small: the smallest engine found needs 260 DSP, the part has 156\n"
        ' --> k.py:4:39\n  |\n4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 39
        * " "
        + "^^^^^^^^^^^^^^^^\n"
        "hint: leave --threads 64 out, so that the planner finds what fits; models w[4] in float32: a smaller dimension, a narrower format (--format) or a "
        "larger target (--target, --board) would help; without --threads it fits\n",
    ),
    (
        "check k.py --data table.csv --bind x=a,b --dim d=5",
        "error[E615]: x is [d=5] and takes 5 elements, but its columns have 2: a, b\n --> k.py:4:7\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |       ^^^^^^^^^^^^^^^^\n'
        "note: d was given as 5\n --> k.py:4:5\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |     ^\n'
        "hint: write --dim d=2, or name columns of 5 elements together in --bind x=…; its numeric columns are y, a, b\n",
    ),
    (
        "check k.py --data table.csv --bind y=a,b",
        "error[E614]: y is a scalar and takes 1 element, but its columns have 2: a, b\n --> k.py:4:25\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 25
        * " "
        + "^^^^^^^^^^^^\n"
        "hint: y is one number: name one column; its numeric columns are y, a, b\n",
    ),
    ("check k.py --dim d=3 --dim d=4", conflict("check", "--dim d is given twice: 3 and 4")),
    (
        "check k.py --set rate=1 --set rate=2",
        conflict("check", "--set rate is given twice: 1 and 2"),
    ),
    (
        "check k.py --init w=1 --init w=start.npy",
        conflict("check", "--init w is given twice: 1.0 and start.npy"),
    ),
    ("check k.py --bind x=a,b --bind x=a", conflict("check", "--bind x is given twice: a,b and a")),
    (
        "check k.py --format float32 --format bfloat16",
        conflict("check", "--format is given twice: float32 and bfloat16"),
    ),
    ("model k.py --rows 5 --rows 6", conflict("model", "--rows is given twice: 5 and 6")),
    (
        "model k.py --rows 5 --data random:rows=9 --dim d=4",
        conflict(
            "model",
            "--rows 5 and --data random:rows=9 both say how many rows there are",
            "leave --data out: --rows assumes a table of the kernel's shapes",
        ),
    ),
    (
        "simulate k.py --seed 4 --data random:rows=9,seed=3 --dim d=4",
        conflict(
            "simulate", "--seed 4 and --data random:rows=9,seed=3 both say which seed there is"
        ),
    ),
    (
        "simulate k.py --seed 4 --data table.csv",
        conflict(
            "simulate",
            "--seed 4 and --data table.csv: nothing is drawn at random",
            "leave --seed out, or give --data random:rows=1000",
        ),
    ),
    (
        "model k.py --seed 4 --rows 9 --dim d=4",
        conflict(
            "model",
            "--seed 4 and no random data: nothing is drawn at random",
            "leave --seed out, or give --data random:rows=1000",
        ),
    ),
    (
        "model k.py --rows 5 --dim d=4 --set rat=1",
        "error[E501]: rat is not a meta of the kernel f\n --> --set\nhint: did you mean rate?\n",
    ),
    (
        "model k.py --rows 5 --dim d=9000",
        "error[E704]: a row of these columns fits no page: a row of 36052 bytes does not fit a page of 32768: "
        "the most is 32736\n --> --data\nhint: a row lies in one page of at most 32 KB\n",
    ),
    (
        "model k.py --data table.xlsx",
        "error[E701]: unknown data source 'table.xlsx'\n --> table.xlsx\nhint: known are: heap:FILE,SCHEMA.json · "
        "postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · FILE.arrow · FILE.feather · random:rows=1000,seed=1\n",
    ),
    (
        "model k.py --data no.csv",
        "error[E702]: no such file: no.csv\n --> no.csv\nhint: paths are taken from the current folder\n",
    ),
    (
        "model k.py --data tabel.csv",
        "error[E702]: no such file: tabel.csv\n --> tabel.csv\nhint: did you mean table.csv?\n",
    ),
    (
        "model k.py --data empty.csv",
        "error[E702]: empty.csv is empty\n --> empty.csv\n"
        "hint: was it written to its end? A table needs at least one row\n",
    ),
    (
        "model k.py --data heap:junk.heap,folder",
        "error[E702]: folder is not a file\n --> heap:junk.heap,folder\nhint: name a file in it\n",
    ),
    (
        "model k.py --data junk.npz",
        "error[E703]: junk.npz is not a NumPy archive of plain arrays: File is not a zip file\n --> junk.npz\n"
        "hint: write it with numpy.savez(file, name=array, …)\n",
    ),
    (
        "model k.py --data heap:junk.heap,schema.json",
        "error[E703]: junk.heap has 256 bytes, which is not a whole number of pages of 8192 bytes\n"
        " --> heap:junk.heap,schema.json\nhint: is page_size in schema.json the server's block_size, and the file complete?\n",
    ),
    (
        "model k.py --data random:rows=many --dim d=4",
        "error[E701]: random: rows must be a whole number, not 'many'\n --> random:rows=many\n"
        "hint: as in random:rows=1000\n",
    ),
    (
        "model k.py --data nulls.csv",
        "error[E814]: TUPLE_NULL: a used column is NULL\n --> nulls.csv, row 3, column y\n"
        "hint: --on-null skip leaves such rows out; or fill the column first\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --json folder",
        "error[E903]: folder is a folder\n --> output\nhint: name a file\n",
    ),
    (
        "compile k.py --dim d=4 --out k.py",
        "error[E903]: k.py is a file\n --> output\nhint: name a folder that does not exist yet\n",
    ),
    (
        "compile k.py --dim d=4 --out .",
        "error[E903]: the folder . holds other files (empty.csv, …)\n --> output\n"
        "hint: name a folder that does not exist yet\n",
    ),
    (
        "simulate k.py --data random:rows=5 --dim d=4 --waves no/w.fst",
        "error[E903]: there is no folder no\n --> output\nhint: make it first\n",
    ),
]


@pytest.mark.parametrize(
    ("line", "message"), MESSAGES, ids=[line[:60].replace("\0", "NUL") for line, _ in MESSAGES]
)
def test_messages(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", message)
    assert err.count("error[") == 1 and "\nhint: " in err


@pytest.mark.parametrize(
    "line", ["check k.py --format=", "check k.py --target=", "check k.py --memory="]
)
def test_empty_options_are_no_defaults(line: str) -> None:
    assert told(f"{line} --dim d=4", 1).startswith("error[E60")


def test_every_diagnostic_that_is_raised_here_has_its_page() -> None:
    raised = (
        {message[6:10] for _, message in MESSAGES}
        | {code.page for code in HARDWARE}
        | {"E801", "E802", "E804"}
    )
    assert raised <= set(codes())
    registered = {kind for engine in engines().values() for kind in engine.errors}
    assert {PageError, FitError} <= registered and len({int(code) for code in HARDWARE}) == len(
        HARDWARE
    )


@pytest.mark.parametrize("code", HARDWARE)
def test_hardware_errors(code: HardwareCode) -> None:
    found = hardware_failure(HardwareError(code, 3, 7), "houses", server=True)
    assert found.text.startswith(f"error[{code.page}]: {code.name}: ")
    assert "\n --> houses, block 3, line pointer 7\nhint: " in found.text
    mended = (FitError.QR_DOWNDATE, ErrorCode.REGISTER, ErrorCode.DEAD_PORT)  # by who runs it
    assert found.exit_code == (2 if code.value >= 64 and code not in mended else 1)
    assert (found.errors[0]["code"], found.errors[0]["address"]) == (code.name, "(3,7)")
    assert told(["explain", code.name.lower()]).startswith(f"# {code.page}: ")
