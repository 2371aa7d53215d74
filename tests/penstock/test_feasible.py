"""What is judged once for every engine: whether a part holds a plan, what does fit instead, and the clock of a part that is nearly full."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api import compile, load_kernel
from penstock.models.feasible import derated
from penstock.models.resources import Resources
from penstock.targets import target_named

EXAMPLES = Path(__file__).parents[2] / "examples"
MAP = "map m(key: u64, value: bytes[8], capacity: 1024)\n"


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
