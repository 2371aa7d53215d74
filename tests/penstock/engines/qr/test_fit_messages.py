"""Fit kernels on the command line: messages, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbench.command_line import told
from testbench.fit_kernels import SMALL, fill, written


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    fill(tmp_path)
    return tmp_path


HEAD = " --> f.py:4:7\n  |\n4 | def f(key: ps.Key):\n  |       ^^^^^^^^^^^\n"
MESSAGES = [
    (
        "model f.py",
        "error[E904]: model needs keys, or the number of rows\n --> penstock model\nhint: give --data SRC, or --rows N\n",
    ),
    (
        "simulate f.py",
        "error[E904]: simulate needs keys\n --> penstock simulate\nhint: give --data SRC, for example --data random:rows=1000\n",
    ),
    (
        "model f.py --rows 5",
        "error[E701]: 5 rows are too few for 8 groups\n --> --rows\nhint: more rows, or fewer --groups, --refits, --new or --gone\n",
    ),
    (
        "model f.py --rows 5000000",
        "error[E701]: 5,000,000 rows are too many to be played through: the most is 4,194,304\n --> --rows\n"
        "hint: fewer will do: with target=slot(key) a refit's cycles do not grow with the rows\n",
    ),
    (
        "model f.py --rows 100 --data keys.csv",
        "error[E902]: --rows 100 and --data keys.csv both say which keys there are\n --> penstock model\n"
        "hint: leave one of them out: with --rows alone keys are random ones\n",
    ),
    (
        "model f.py --rows 800 --gone 101",
        "error[E701]: group 0 has 100 rows before a refit, of which 101 are to go\n --> --rows\n"
        "hint: more rows, or fewer --groups, --refits, --new or --gone\n",
    ),
    (
        "model f.py --rows 800 --new 100000",
        "error[E701]: 100,000 keys at once are too many to be played through: the most is 4,096\n --> --new\n"
        "hint: fewer will do: a group has some 1,000 keys\n",
    ),
    (
        "model f.py --rows 4000 --groups 4000 --refits 100 --new 0",
        "error[E701]: 404,000 fits are too many to be played through: the most is 65,536\n"
        " --> --refits\nhint: fewer will do: fewer --groups, or fewer --refits of each\n",
    ),
    (
        "model f.py --rows 800 --groups 8 --refits 2000 --new 400",
        "error[E701]: 6,400,800 rows in all fits are too many to be played through: "
        "the most is 4,194,304\n --> --refits\nhint: fewer will do: fewer --rows, --groups or --refits, or fewer --new or --gone of each\n",
    ),
    (
        "model scan.py --rows 900000 --new 0",
        "error[E701]: 4,500,000 rows in all fits are too many to be played through: "
        "the most is 4,194,304\n --> --refits\nhint: fewer will do: fewer --rows, --groups or --refits, or fewer --new or --gone of each\n",
    ),
    (
        "check f.py --data random:rwos=5",
        "error[E701]: random: does not know 'rwos'\n --> random:rwos=5\n"
        "hint: the form is random:rows=1000,seed=1,task=regression\n",
    ),
    (
        "check f.py --bind kye=url",
        f"error[E619]: the kernel f has no key kye\n{HEAD}hint: write --bind key=COLUMN, beside --data SRC\n",
    ),
    (
        "model f.py --data random:rows=800 --bind key=url",
        "error[E902]: --bind names a column, but random keys have none\n --> penstock model\n"
        "hint: give --data SRC with a table, or leave --bind out\n",
    ),
    (
        "check f.py --bind key=url",
        "error[E902]: --bind names a column, but there is no table\n --> penstock check\n"
        "hint: give --data SRC with a table, or leave --bind out\n",
    ),
    (
        "check f.py --data keys.csv --bind key=id",
        f"error[E619]: the column id is not of text\n{HEAD}hint: its columns of text are url\n",
    ),
    (
        "check f.py --data keys.csv --bind key=ur",
        f"error[E619]: the column ur is not in the table keys\n{HEAD}hint: did you mean url?\n",
    ),
    (
        "check f.py --data keys.csv --bind x=url",
        f"error[E619]: the kernel f has no key x\n{HEAD}hint: write --bind key=COLUMN; its columns of text are url\n",
    ),
    (
        "check f.py --data keys.csv --bind key=url,id",
        f"error[E619]: the key key takes one column, not 2\n{HEAD}"
        "hint: name it with --bind key=COLUMN; its columns of text are url\n",
    ),
    (
        "check f.py --epochs 3",
        "error[E902]: --epochs is not for the engine qr\n --> penstock check\n"
        "hint: leave --epochs out: it is for analytics\n",
    ),
    (
        "check f.py --format bfloat16",
        "error[E902]: --format bfloat16 is not for fits of keys\n --> penstock check\n"
        "hint: leave --format out: weights are float32\n",
    ),
    (
        "simulate f.py --data keys.csv --device sim:out",
        "error[E902]: --device is for --backend board\n --> penstock simulate\n"
        "hint: add --backend board, or leave --device out\n",
    ),
    (
        "simulate f.py --data random:rows=400 --backend netlist",
        "error[E829]: vu9p is of the family amd, whose netlists cannot be simulated\n"
        " --> --backend netlist\nhint: --family takes ecp5, ice40, gowin, for any target\n",
    ),
]


@pytest.mark.parametrize(("line", "message"), MESSAGES, ids=[line for line, _ in MESSAGES])
def test_messages(line: str, message: str) -> None:
    Path("small.py").write_text(SMALL)
    written("scan.py", options="(incremental=False)", label="rank")
    assert told(line, 1) == message
