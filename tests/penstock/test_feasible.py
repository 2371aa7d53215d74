"""What is judged once for every engine: whether a part holds a plan, what does fit instead, and the clock of a part that is nearly full."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api import compile, load_kernel
from penstock.boards.catalogue import targets
from penstock.cli import run
from penstock.models.feasible import derated
from penstock.models.resources import Resources
from penstock.targets import target_named

EXAMPLES = Path(__file__).parents[2] / "examples"


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


KERNELS: dict[str, tuple[list[str], list[list[str]]]] = {
    "logistic.py": (
        ["float32", "bfloat16", "fixed:8,8"],
        [["--threads", "64"], ["--lanes", "32"], ["--ports", "4"]],
    ),
    "lrmf.py": (["float32", "fixed:8,16"], [["--threads", "8"]]),
    "mlp.py": (["float32", "float16"], [["--threads", "16"], ["--walkers", "4"]]),
    "closed_form.py": (["fixed:4,12"], []),
    "rank_model.py:slots": ([], []),
    "mamba2.py": (["mx8", "float16"], [["--banks", "16"], ["--banks", "64"]]),
    "map": ([], [["--channels", "2"], ["--window", "256"], ["--cores", "64"]]),
}
#: what a user may ask for that there is not, whatever the part holds
OTHERWISE = {"E454", "E471", "E464", "E605", "E701", "E604", "E606", "E505"}


def drawn(draw: random.Random, folder: Path) -> list[str]:
    """Return a command line of `penstock model`."""
    name = draw.choice(list(KERNELS))
    formats, forced = KERNELS[name]
    words = ["model", f"{EXAMPLES}/{name}", "-q", "--json", str(folder / "r.json")]
    if name == "map":
        capacity, size = 1 << draw.randint(10, 24), 1 << draw.randint(3, 10)
        (folder / "m.py").write_text(
            "import penstock as ps\n"
            f"m = ps.ObliviousMap(value=ps.bytes({size}), capacity={capacity}, name='m')\n"
        )
        words[1] = str(folder / "m.py")
        words += ["--ops", "20"]
    elif name not in ("rank_model.py:slots", "mamba2.py"):
        names = load_kernel(EXAMPLES / name).dim_names
        words += [w for n in names for w in ("--dim", f"{n}={int(2 ** draw.uniform(0, 11))}")]
    if name in ("mamba2.py",):
        words += ["--tokens", "2"]
    elif name != "map":
        words += [
            "--rows",
            str(int(10 ** draw.uniform(2, 8 if name != "rank_model.py:slots" else 3))),
        ]
    if name != "map" or draw.random() < 0.3:
        words += ["--target", draw.choice(list(targets()))]
    if formats and draw.random() < 0.7:
        words += ["--format", draw.choice(formats)]
    if forced and draw.random() < 0.4:
        words += draw.choice(forced)
    return words


def judged(seed: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command line, and hold what it printed against the part's record; return how it ended."""
    words = drawn(random.Random(seed), folder)
    code = run(words)
    said, report = capsys.readouterr().err, json.loads((folder / "r.json").read_text())
    if code == 0:
        part = target_named(report["design"]["target"])
        need = report["resources"]
        for name in ("lut", "ff", "dsp", "bram", "uram"):
            most = 0.97 if name in ("lut", "ff") else 1.0
            assert need[name] <= most * getattr(part, name), (seed, words, name)
        full = max(need["shares"].values())
        clock = report["seconds"]["clock_mhz"]
        assert clock == part.clock_mhz or full > 0.8 or part.board is not None, (seed, words)
        assert clock <= part.clock_mhz and (
            full <= 0.8 or clock < part.clock_mhz or part.board is not None
        )
        pages = (report["table"]["pages"] or 0) * 1024
        assert not part.memory.bytes or pages <= part.memory.bytes, (seed, words)
        return "fits"
    assert code == 1 and "cycles" not in report and "seconds" not in report, (seed, words, said)
    found = report["errors"][0]["code"]
    assert found in {"E601", "E610", *OTHERWISE}, (seed, words, said)
    if found == "E610" and (rows := re.search(r"([\d,]+) rows like these fit", said)):
        words[words.index("--rows") + 1] = rows[1].replace(",", "")
        assert run(words) == 0, (seed, words)
    if found == "E601" and (forced := re.search(r"without --(\w+) it fits", said)):
        at = words.index(f"--{forced[1]}")
        assert _not_601([*words[:at], *words[at + 2 :]], folder), (seed, words, said)
    elif found == "E601" and (
        sizes := re.search(r"the largest (.*) that fits? (?:is|are) about (\d+)", said)
    ):
        names = sizes[1].split(" and ")
        plain = [w for n in names for w in ("--dim", f"{n}={sizes[2]}")]
        kept = [w for k, w in enumerate(words) if not _sizes(words, k, names)]
        kept = [w for k, w in enumerate(kept) if not _forced(kept, k)]
        assert _not_601([*kept, *plain], folder), (seed, words, said)
    elif found == "E601" and (other := re.search(r"it fits on --target (\S+)", said)):
        words[words.index("--target") + 1] = other[1]
        assert _not_601(words, folder), (seed, words, said)
    return found


def _sizes(words: list[str], k: int, names: list[str]) -> bool:
    """Return whether a word is a size of these, or the option before it."""
    return any(
        w.partition("=")[0] in names and words[n - 1] == "--dim" and k in (n - 1, n)
        for n, w in enumerate(words)
        if n
    )


def _forced(words: list[str], k: int) -> bool:
    return any(
        w in ("--threads", "--lanes", "--ports", "--walkers") and k in (n, n + 1)
        for n, w in enumerate(words)
    )


def _not_601(words: list[str], folder: Path) -> bool:
    """Return whether a plan fits: the run may still be more than the memory holds."""
    code = run(words)
    errors = json.loads((folder / "r.json").read_text())["errors"]
    return code == 0 or errors[0]["code"] == "E610"


def test_what_is_printed_can_be_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(10):
        judged(seed, tmp_path, capsys)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_what_is_printed_can_be_built_at_many_points(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(100 + 100 * part, 200 + 100 * part):
        judged(seed, tmp_path, capsys)
