"""What is judged once for every engine: whether a part holds a plan, what does fit instead, and the clock of a part that is nearly full."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api import compile, load_kernel
from penstock.boards.catalogue import targets
from penstock.cli import run
from penstock.discovery import engine_of
from penstock.engines.base import Given
from penstock.models.feasible import derated
from penstock.models.resources import Resources
from penstock.models.target import RESOURCES
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


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        # more rows than the sums hold: fewer that memory holds would be too many as well
        ("closed_form.py --dim d=2 --rows 33775151 --target small", "E701", "fewer rows"),
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


#: sizes, target, format, what is forced of a factorization without hardware, and what there is instead
ROWS = [
    ("m=2000 n=1000 k=1000", "icebreaker", "float32", "", "it fits on --target u55c"),
    ("m=9000 n=800 k=4", "ulx3s-85f", "float32", "", "the largest m that fits is about"),
    ("m=9000 n=800 k=4", "ulx3s-85f", "float32", "--threads 2", "the largest m that fits is about"),
    ("m=70000 n=20 k=1", "vu9p", "bfloat16", "", "the largest m that fits is about 65536"),
    ("m=300 n=200 k=4", "small", "float32", "--threads 2", "without --threads it fits"),
    ("m=300 n=200 k=9", "icebreaker", "fixed:8,8", "--threads 4", "without --threads it fits on"),
]


@pytest.mark.parametrize(("sizes", "target", "form", "forced", "hint"), ROWS)
def test_rows_without_hardware_name_what_there_is(
    sizes: str, target: str, form: str, forced: str, hint: str, tmp_path: Path
) -> None:
    dims = [word for size in sizes.split() for word in ("--dim", size)]
    words = ["model", f"{EXAMPLES}/lrmf.py", "-q", "--json", str(tmp_path / "r.json")]
    words += [*dims, "--rows", "100", "--target", target, "--format", form, *forced.split()]
    code, report = _reported(words, tmp_path)
    [found] = report["errors"]
    assert code == 1 and found["code"] == "E496"
    assert hint in found["hint"]
    [claim] = _claims(words, found["hint"], tmp_path)
    assert _reported(claim, tmp_path)[0] == 0


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


#: by kernel: formats, options that force a plan, the largest size of a dimension as a power of two
KERNELS: dict[str, tuple[list[str], list[str], float]] = {
    "logistic.py": (
        ["float32", "bfloat16", "fixed:8,8"],
        ["--threads 64", "--lanes 32", "--ports 4", "--threads 2 --lanes 128"],
        12,
    ),
    "mlp.py": (["float32", "float16"], ["--threads 16", "--walkers 4", "--fill 0.95"], 11),
    "lrmf.py": (
        ["float32", "bfloat16", "fixed:8,24"],
        ["--threads 4", "--lanes 8", "--place P=memory", "--lanes 128 --walkers 8"],
        16,
    ),
    "closed_form.py": ([], ["--limbs 1", "--limbs 3"], 6.1),
    "rank_model.py:slots": ([], ["--refits 2", "--groups 3"], 0),
    "mamba2.py": (["mx8", "float16"], ["--banks 16", "--banks 64"], 0),
    "map": ([], ["--channels 2", "--window 256", "--cores 64", "--hbm 16M", "--load 4"], 0),
}
#: what a user may ask for that there is not, whatever the part holds
OTHERWISE = {"E454", "E471", "E464", "E605", "E701", "E604", "E606", "E505"}
MAP = "import penstock as ps\nm = ps.ObliviousMap(value=ps.bytes({}), capacity={}, name='m')\n"


def drawn(draw: random.Random, folder: Path) -> list[str]:
    """Return a command line of `penstock model`: small and large kernels and machines alike."""
    name = draw.choice(list(KERNELS))
    formats, forced, most = KERNELS[name]
    words = ["model", f"{EXAMPLES}/{name}", "-q", "--json", str(folder / "r.json")]
    if name == "map":
        capacity, size = 1 << draw.randint(10, 24), 1 << draw.randint(3, 10)
        (folder / "m.py").write_text(MAP.format(size, capacity))
        words[1] = str(folder / "m.py")
        words += ["--ops", "20"]
    elif most:
        names = load_kernel(EXAMPLES / name).dim_names
        share = draw.choice([1, 1 / len(names)])
        sizes = [int(2 ** draw.uniform(0, most * share)) for _ in names]
        words += [w for n, size in zip(names, sizes, strict=True) for w in ("--dim", f"{n}={size}")]
    if name == "mamba2.py":
        words += ["--tokens", "2"]
    elif name != "map":
        rows = draw.uniform(2, 3 if name == "rank_model.py:slots" else 8)
        words += ["--rows", str(int(10**rows))]
    if name != "map" or draw.random() < 0.3:
        by_size = sorted(targets().values(), key=lambda part: part.lut)
        parts = draw.choice([by_size, by_size[-6:]])
        words += ["--target", draw.choice(parts).name]
    if formats and draw.random() < 0.7:
        words += ["--format", draw.choice(formats)]
    if forced and draw.random() < 0.4:
        words += draw.choice(forced).split()
    return words


def judged(seed: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command line, and hold what it printed against the part's record; return how it ended."""
    words = drawn(random.Random(seed), folder)
    code, report = _reported(words, folder)
    capsys.readouterr()
    if code == 0:
        _check_printed(report, (seed, words))
        return "fits"
    told = (seed, words, report["errors"])
    assert code == 1 and len(report["errors"]) == 1, told
    assert not report.keys() & {"cycles", "seconds", "energy"}, told
    found, hint = report["errors"][0]["code"], report["errors"][0]["hint"]
    assert found in {"E496", "E601", "E610", *OTHERWISE}, told
    if found == "E610" and (rows := re.fullmatch(r"([\d,]+) rows like these fit", hint)):
        few = _number(rows[1])
        at = words.index("--rows") + 1
        for count, fits in ((few, True), (few + 1, False)):
            again, _ = _reported([*words[:at], str(count), *words[at + 1 :]], folder)
            assert (again == 0) == fits, (told, count)
    elif found in ("E496", "E601"):
        claims = [*_claims(words, hint, folder)]
        assert claims or "no larger target that is known holds it" in hint, told
        for claim in claims:
            again, other = _reported(claim, folder)
            # a plan fits: the run may still be more than the memory, or the sums of a fit, hold
            assert again == 0 or other["errors"][0]["code"] in ("E610", "E701"), (
                told,
                claim,
                other,
            )
    return found


def _reported(words: list[str], folder: Path) -> tuple[int, dict[str, Any]]:
    (folder / "r.json").unlink(missing_ok=True)
    code = run(words)
    return code, json.loads((folder / "r.json").read_text())


def _check_printed(report: dict[str, Any], told: Any) -> None:
    part, need = target_named(report["design"]["target"]), report["resources"]
    shares = [need[n] / getattr(part, n) for n in RESOURCES if need[n]]
    assert max(need[n] / getattr(part, n) for n in ("lut", "ff")) <= 0.97, told
    assert (full := max(shares)) <= 1, told
    seconds, cycles = report["seconds"], report["cycles"]
    clock = seconds["clock_mhz"]
    assert clock <= part.clock_mhz, told
    if part.board is None and part.clock.evidence != "placed":
        assert clock == pytest.approx(part.clock_mhz * min(1, 1 - (full - 0.8) / 0.4), 0.006), told
    streams = [seconds.get(name, 0) for name in ("link", "engine", "results")]
    assert seconds["engine"] == pytest.approx(cycles["model"] / clock / 1e6), told
    assert seconds["total"] == pytest.approx(sum(streams)), told
    whole = cycles.get("bound_machine", cycles["bound"])
    assert whole <= cycles["bound"] <= cycles["model"], told
    held = report["design"]["config"].get("hbm_bytes", 0)
    held += (report["table"]["pages"] or 0) * part.page_size
    assert held <= (part.memory.bytes or held), told


def _claims(words: list[str], hint: str, folder: Path) -> Iterator[list[str]]:
    """Yield a command line for each thing that a hint says fits."""

    def given(more: str, *without: str) -> list[str]:
        """The command line without options, but with others."""
        kept = [*words]
        for flag in (*without, *re.findall(r"--\w+", more)):
            while flag in kept and flag != "--dim":
                del kept[kept.index(flag) : kept.index(flag) + 2]
        return [*kept, *more.split()]

    for flags, part in re.findall(
        r"(?:without (--\w+(?: and --\w+)*) )?it fits(?: on --target (\S+))?", hint
    ):
        if flags or part:
            yield given(f"--target {part}" if part else "", *flags.split(" and "))
    if found := re.search(r"the largest (.*) that fits? (?:is|are) about (\d+(?: and \d+)*)", hint):
        names, most = found[1].split(" and "), found[2].split(" and ")
        sizes = zip(names, most * (len(names) // len(most)), strict=True)
        plain = given("", "--threads", "--lanes", "--ports", "--walkers", "--place")
        at = [n for n, w in enumerate(plain) if w.partition("=")[0] in names]
        kept = [w for n, w in enumerate(plain) if n not in at and n + 1 not in at]
        kept += [w for name, size in sizes for w in ("--dim", f"{name}={size}")]
        yield kept
    if found := re.search(r"a map of ([\d,]+) items fits", hint):
        file = folder / "fewer.py"
        whole = Path(words[1]).read_text()
        file.write_text(re.sub(r"capacity=\d+", f"capacity={_number(found[1])}", whole))
        yield ["model", str(file), *words[2:]]
    if found := re.search(r"the longest window that fits is window\(key, (\d+)\)", hint):
        file = folder / "shorter.py"
        whole = (EXAMPLES / "rank_model.py").read_text()
        file.write_text(whole.replace("window(key, 32)", f"window(key, {found[1]})"))
        yield ["model", f"{file}:slots", *words[2:]]
    for names, form in re.findall(r"on ([\w., -]+?) in (mx8|float16)", hint):
        for name in names.split(", "):
            banks = re.search(r"--banks (\d+) it fits", hint)
            yield given(f"--banks {banks and banks[1]} --format {form} --target {name}")
    if found := re.search(r"write --banks (\d+)", hint):
        yield given(f"--banks {found[1]}")


def test_what_is_printed_can_be_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        judged(seed, tmp_path, capsys)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_what_is_printed_can_be_built_at_many_points(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(100 + 100 * part, 200 + 100 * part):
        judged(seed, tmp_path, capsys)
