"""What is judged once for every engine: whether a part holds a plan, what does fit instead, and the clock of a part that is nearly full."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api import compile, load_kernel
from penstock.cli.main import run
from penstock.engines.base import Given
from penstock.engines.discovery import engine_of
from penstock.models.derating import derated
from penstock.models.resources import Resources
from penstock.targets import target_named
from testbench.points import claims, judged, reported

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("share", "mhz"), [(0.0, 250), (0.8, 250), (0.93, 169), (1.0, 125), (0.9, 188)]
)
def test_the_clock_falls_with_the_fullest_resource(share: float, mhz: float) -> None:
    assert derated(250, share) == pytest.approx(mhz)


#: kernel, target, format, options of which what is forced or asked for is too much
REFUSED: list[tuple[str, str, str | None, dict[str, Any]]] = [
    (
        "logistic.py",
        "u55c",
        None,
        {"dims": {"d": 54}, "choices": ps.Choices(threads=256, lanes=64)},
    ),
    ("logistic.py", "ulx3s-25f", None, {"dims": {"d": 4000}}),
    ("mlp.py", "icebreaker", None, {"dims": {"d": 100, "h": 40}}),
    ("closed_form.py", "ulx3s-12f", None, {"dims": {"d": 30}}),
    ("rank_model.py:slots", "ulx3s-25f", None, {}),
    ("retnet.py", "ulx3s-12f", None, {}),
    ("retnet.py", "small", None, {"banks": 64}),
]


@pytest.mark.parametrize(("name", "part", "form", "options"), REFUSED)
def test_a_refusal_names_what_fits_and_that_does(
    name: str, part: str, form: str | None, options: dict[str, Any]
) -> None:
    kernel = load_kernel(f"{EXAMPLES}/{name}")
    with pytest.raises(ps.KernelError) as caught:
        compile(kernel, part, format=form, **options)
    found = caught.value.diagnostic
    assert found.code == "E601", found
    need, have = map(
        _number, re.findall(r"needs? ([\d,]+) \w+, the part has ([\d,]+)", found.message)[0]
    )
    assert need > 0.97 * have
    hint = found.hint
    if forced := re.search(r"without (?:--)?(\w+) it fits", hint):
        compile(kernel, part, format=form, **{k: v for k, v in options.items() if k != forced[1]})
    elif largest := re.search(r"the largest (.*) that fits? (?:is|are) about (\d+)", hint):
        names, size = largest[1].split(" and "), int(largest[2])
        dims = {**options["dims"], **dict.fromkeys(names, size)}
        compile(kernel, part, format=form, dims=dims)
        with pytest.raises(ps.KernelError):
            compile(kernel, part, format=form, dims={**dims, **dict.fromkeys(names, size + 1)})
    elif other := re.search(r"it fits on --target (\S+)", hint):
        compile(kernel, other[1], format=form, **options)
    elif board := re.search(r"fits on ([\w.-]+)", hint):
        compile(kernel, board[1], format=form, banks=2)
    else:
        pytest.fail(f"names nothing that fits: {hint}")


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        # more rows than the sums hold: fewer that memory holds would be too many as well
        ("closed_form.py --dim d=2 --rows 33775151 --target small", "E701", "fewer rows"),
        # kcu105 holds the design, and not this many rows
        (
            "closed_form.py --dim d=63 --rows 4000 --target ulx3s-12f",
            "E601",
            "a larger target (--target, --board) would help; it fits on --target u55c",
        ),
        # of the targets with more memory those that hold the design
        (
            "mamba2.py --tokens 1 --target ulx3s-85f --format float16 --heads 1 --dim n=244 --dim p=238",
            "E610",
            "choose a target with more memory: arty-a7-100t (256 KiB), kcu105 (1,024 KiB), ulx3s-85f-sdram (32,768 KiB)",
        ),
        # two banks are too many as well
        ("mamba2.py --tokens 2 --target ulx3s-25f --banks 16", "E601", "no number of banks"),
        ("mamba2.py --tokens 2 --target ecp5-evn --banks 16", "E601", "write --banks 2;"),
        (
            "retnet.py --tokens 2 --target ulx3s-85f --schedule quarters",
            "E601",
            "no number of banks (--banks) fits; without --schedule it fits",
        ),
        # this schedule cannot have two banks
        (
            "deltanet.py --target ulx3s-85f --tokens 3 --format float16 --batch 15 --schedule halves --banks 32",
            "E601",
            "write --banks 4; without --banks it fits",
        ),
        # rows for so many requests are too many for one unit of float16
        (
            "rwkv7.py --target ulx3s-85f-sdram --tokens 4 --format float16 --batch 30",
            "E601",
            "no number of banks (--banks) fits; with --banks 2 it fits on ulx3s-85f, ulx3s-85f-sdram, ecp5-evn, ecpix5-85f in mx8",
        ),
    ],
)
def test_what_is_proposed(
    line: str, code: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", *f"{EXAMPLES}/{line}".split()]) == 1
    said = capsys.readouterr().err
    assert f"error[{code}]" in said and f"hint: {hint}" in said


@pytest.mark.parametrize(
    ("size", "hint"), [(20_000, "with more memory"), (110_000, "rows like these fit")]
)
def test_rows_that_a_memory_holds_and_a_kernel_takes(
    size: int, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer than a kernel has groups fit nowhere."""
    (tmp_path / "k.psk").write_text(
        "fit k(key: key)\n  w <- least_squares(window(key, 15), target=slot(key))\n"
    )
    memory = f'{{ kind = "block RAM", bytes = {size}, source = "own" }}'
    (tmp_path / "tiny.toml").write_text(
        f'[target]\nname = "tiny"\nbase = "ulx3s-85f"\nmemory = {memory}\n'
    )
    words = f"model {tmp_path}/k.psk --rows 1000 --target {tmp_path}/tiny.toml".split()
    assert run(words) == 1
    said = capsys.readouterr().err
    assert "error[E610]" in said and hint in said


#: sizes, target, format, what is forced of a factorization without hardware, the code, and what there is instead
ROWS = [
    ("m=2000 n=1000 k=1000", "icebreaker", "float32", "", "E601", "it fits on --target u55c"),
    ("m=9000 n=800 k=4", "ulx3s-85f", "float32", "", "E601", "the largest m that fits is about"),
    (
        "m=9000 n=800 k=4",
        "ulx3s-85f",
        "float32",
        "--threads 2",
        "E496",
        "the largest m that fits is about",
    ),
    ("m=70000 n=20 k=1", "vu9p", "bfloat16", "", "E496", "the largest m that fits is about 65536"),
    ("m=300 n=200 k=4", "small", "float32", "--threads 2", "E496", "without --threads it fits"),
    (
        "m=300 n=200 k=9",
        "icebreaker",
        "fixed:8,8",
        "--threads 4",
        "E496",
        "without --threads it fits on",
    ),
]


@pytest.mark.parametrize(("sizes", "target", "form", "forced", "named", "hint"), ROWS)
def test_rows_without_hardware_name_what_there_is(
    sizes: str, target: str, form: str, forced: str, named: str, hint: str, tmp_path: Path
) -> None:
    dims = [word for size in sizes.split() for word in ("--dim", size)]
    words = ["model", f"{EXAMPLES}/lrmf.py", "-q", "--json", str(tmp_path / "r.json")]
    words += [*dims, "--rows", "100", "--target", target, "--format", form, *forced.split()]
    code, report = reported(words, tmp_path)
    [found] = report["errors"]
    assert code == 1 and found["code"] == named
    assert hint in found["hint"]
    if named == "E601":
        assert f"kernel 'lrmf' does not fit on {target}: " in found["message"]
    [claim] = claims(words, found["hint"], tmp_path)
    assert reported(claim, tmp_path)[0] == 0


def test_sizes_that_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that is small already stays: all three of the largest one would be too much."""
    kernel, asked = load_kernel(EXAMPLES / "lrmf.py"), {"m": 600, "n": 300, "k": 9}
    engine, given = engine_of(kernel), Given(options={"dims": asked})
    fits = lambda *args: args[-1]["m"] + args[-1]["n"] <= 110
    monkeypatch.setattr(type(engine), "_plans", fits)
    said = engine.largest(kernel, target_named("small"), given)
    assert said == "the largest m and n and k that fit are about 55 and 55 and 9"
    given = Given(options={"dims": asked | {"n": 50}})
    said = engine.largest(kernel, target_named("small"), given)
    assert said == "the largest m that fits is about 60"


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def test_a_nearly_full_part_has_a_slower_clock_and_another_ratio_to_its_dram() -> None:
    kernel = load_kernel(EXAMPLES / "logistic.py")
    plain = compile(kernel, "u55c", dims={"d": 54}, memory="hbm2")
    assert not [w for w in kernel.warnings if w.code == "W605"]
    part = replace(target_named("u55c"), name="tight", lut=round(plain.resources.lut / 0.93))
    choices = ps.Choices(**{n: plain.config()[n] for n in ("threads", "lanes", "ports", "walkers")})
    design = compile(kernel, part, dims={"d": 54}, memory="hbm2", choices=choices)
    [warning] = [w for w in kernel.warnings if w.code == "W605"]
    mhz = round(250 * (1 - (design.resources.lut / part.lut - 0.8) / 0.4))
    assert f"{mhz} MHz" in warning.message and design.target.clock_mhz == mhz
    assert design.memory.ratio == plain.memory.ratio * mhz / 250


def test_what_fits_is_judged_by_what_can_be_filled() -> None:
    part = target_named("small")
    assert Resources(part.lut, 0, 0, 0).fits(part) == "lut"
    assert Resources(int(0.97 * part.lut), 0, part.dsp, part.bram).fits(part) is None


def test_what_is_printed_can_be_built(tmp_path: Path) -> None:
    for seed in range(1, 9):
        judged(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_what_is_printed_can_be_built_at_many_points(part: int, tmp_path: Path) -> None:
    for seed in range(1000 + 100 * part, 1100 + 100 * part):
        judged(seed, tmp_path)
