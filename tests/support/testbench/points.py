"""Random command lines of `penstock model`: kernels of all engines, machines, formats, options. What one prints is held against the machine's data,
and whatever a refusal says fits is tried.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock.boards.catalogue
from penstock.api import load_kernel
from penstock.boards.catalogue import targets
from penstock.cli.main import run
from penstock.targets import target_named

__all__ = ["claims", "drawn", "judged", "reported"]

EXAMPLES = Path(__file__).parents[3] / "examples"
_RESOURCES = ("lut", "ff", "dsp", "bram", "uram")
#: a share of the part, of which the rest is for something else
_OWN = """[target]
name = "own"
part = "{part}"
ports = {ports}
reserve = {{ {reserve}, source = "drawn" }}
clock = {{ mhz = {mhz}, evidence = "assumed", source = "drawn" }}
memory = {{ kind = "DDR4", bytes = {bytes}, timing = "ddr4-2400", source = "drawn" }}
"""
_KERNEL = """kernel drawn(x: input[d], y: output, w: model[d], rate: meta = 0.1)
  error = {} - y
  step  = merge(error * x{})
  w    <- w - rate * step
"""
_FIT = 'fit f(key: key)\n  w <- least_squares(window(key, {}), target={}(key), method="{}")\n'
_MAP = "import penstock as ps\nm = ps.ObliviousMap(value=ps.bytes({}), capacity={}, name='m')\n"
_FORMATS = "float32 bfloat16 float16 fixed:8,8 fixed:8,24 fixed:4,12"
_FILL = "0.05 0.3 0.5 0.9 0.97 1.0"
#: by engine: kernels, formats, and what may be asked of each option
_DRAWN: dict[str, tuple[str, str, dict[str, str]]] = {
    "analytics": (
        "logistic linear svm ridge mlp lrmf biased_lrmf kmeans group_by skip_gram count_min factorisation_machine naive_bayes embedding_bags own own",
        _FORMATS,
        {
            "threads": "1 2 3 7 8 16 64 256",
            "lanes": "1 2 3 8 16 32 100 128",
            "ports": "1 2 4 16 32",
            "walkers": "1 2 3 5 16 64",
            "prefer": "area energy time",
            "fill": _FILL,
            "memory": "latency=1,bytes=1 latency=300,bytes=64 hbm2 ddr4-2400 sdr-166 dram",
            "epochs": "1 3 50",
            "link": "uart udp xdma gbps=8,latency=10us",
        },
    ),
    "qr": ("closed_form rank_model:slots rank_model:rank_model own own", "", {"fill": _FILL}),
    "pim": (
        "retnet gla mamba2 deltanet gated_deltanet hgrn2 mlstm rwkv6 rwkv7 attention:attention attention:score attention:attend zamba2",
        "mx8 float16",
        {
            "batch": "1 2 8 30 200",
            "heads": "1 2 5 16 80",
            "schedule": "halves quarters together",
            "unit": "per-bank pimba",
            "refresh": "none window all-bank per-bank",
            "banks": "2 4 8 16 32 64",
            "fill": _FILL,
        },
    ),
    "omap": (
        "map",
        "",
        {
            "hbm": "16K 1M 16M 1G 64G",
            "load": "1 2 4 9 32",
            "share": "0.05 0.2 0.5 0.9",
            "window": "2 8 64 256",
            "rounds": "1 2 4",
            "cores": "2 4 16 64",
            "channels": "1 2 4",
            "fill": _FILL,
            "link": "uart udp xdma",
        },
    ),
}
#: what a user may ask for that there is not, whatever the part holds
_OTHERWISE = set(
    "E428 E445 E454 E455 E464 E471 E491 E505 E604 E605 E606 E608 E609 E701 E704".split()
)


def _machine(draw: random.Random, folder: Path) -> str:
    """Return a name, or a file of a machine that has a share of a part and a memory of some size."""
    known = sorted(targets().values(), key=lambda part: part.lut)
    part = draw.choice(draw.choice([known, known[-6:]]))
    if draw.random() < 0.8:
        return part.name
    named = {t["name"]: t["part"] for t in _data("targets")["target"]}[part.name]
    raw = next(p for p in _data("parts")["part"] if p["name"] == named)
    taken = {r: int(raw.get(r, 0) * draw.choice([0, draw.random()])) for r in _RESOURCES}
    reserve = ", ".join(f"{r} = {n}" for r, n in taken.items())
    more = {"ports": draw.choice([1, 2, 4]), "mhz": draw.randint(20, 300)}
    text = _OWN.format(part=named, reserve=reserve, bytes=1 << draw.randint(14, 34), **more)
    (folder / "own.toml").write_text(text)
    return str(folder / "own.toml")


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(
        Path(penstock.boards.catalogue.__file__).with_name(f"{name}.toml").read_text()
    )


def _kernel(draw: random.Random, name: str, folder: Path) -> str:
    """Return a kernel's place: an example, or one that is drawn."""
    if name == "map":
        (folder / "m.py").write_text(_MAP.format(1 << draw.randint(3, 10), _size(draw, 10, 24)))
        return str(folder / "m.py")
    if name != "own":
        name, _, which = name.partition(":")
        return f"{EXAMPLES}/{name}.py" + f":{which}" * bool(which)
    error = "sum(w*x)|sigmoid(sum(w*x))|tanh(sum(w*x))*2|abs(sum(w*x))|sum(w*x*x)|exp(sum(w*x))"
    over = draw.choice(["", ", 1", ", 3", ", 16", ", 64", ", 500"])
    (folder / "own.psk").write_text(_KERNEL.format(draw.choice(error.split("|")), over))
    return str(folder / "own.psk")


def _size(draw: random.Random, least: float, most: float) -> int:
    """Return a number whose logarithm is uniform."""
    return int(2 ** draw.uniform(least, most))


def drawn(draw: random.Random, folder: Path) -> list[str]:
    """Return a command line: small and large kernels and machines alike."""
    engine = draw.choice(["analytics", "analytics", "analytics", "qr", "pim", "omap"])
    names, formats, options = _DRAWN[engine]
    name = draw.choice(names.split())
    words = ["model", _kernel(draw, name, folder), "-q", "--json", str(folder / "r.json")]
    if engine == "qr" and name == "own":
        how = draw.choice(["rank", "slot"]), draw.choice(["gram", "givens"])
        (folder / "own.psk").write_text(_FIT.format(_size(draw, 0, 6.5), *how))
    if engine == "omap":
        words += ["--ops", draw.choice(["1", "20", "60"])]
    elif engine == "pim":
        words += ["--tokens", draw.choice(["1", "2", "3"])]
    elif engine == "qr" and name != "closed_form":
        words += ["--rows", str(_size(draw, 3, 9))]
    else:
        words += ["--rows", str(_size(draw, 0, 26.5))]
    if engine != "omap":
        words += _dims(draw, words[1], engine)
    if engine != "omap" or draw.random() < 0.4:
        words += ["--target", _machine(draw, folder)]
    if formats and draw.random() < 0.7:
        words += ["--format", draw.choice(formats.split())]
    for option in draw.sample([*options], min(len(options), draw.choice([0, 0, 1, 1, 2, 3, 4]))):
        words += [f"--{option}", draw.choice(options[option].split())]
    return words


def _dims(draw: random.Random, place: str, engine: str) -> list[str]:
    kernel = load_kernel(place)
    names = kernel.dim_names
    if engine == "pim" and draw.random() < 0.5:
        return []
    most = {"pim": 8.0, "qr": 7.0}.get(engine, 16.0 if kernel.of_kind("index") else 12.0)
    share = draw.choice([1, 0.4, 1 / max(len(names), 1)]) if engine == "analytics" else 1
    return [w for n in names for w in ("--dim", f"{n}={_size(draw, 0, most * share)}")]


def judged(seed: int, folder: Path) -> str:
    """Run a command line, and judge what it printed; return how it ended."""
    words = drawn(random.Random(seed), folder)
    code, report = reported(words, folder)
    if code == 0:
        _check_printed(words, report)
        return "fits"
    told = (seed, words, report["errors"])
    assert code == 1 and len(report["errors"]) == 1, told
    assert not report.keys() & {"cycles", "seconds", "energy"}, told
    found, hint = report["errors"][0]["code"], report["errors"][0]["hint"]
    assert found in {"E496", "E601", "E610", *_OTHERWISE}, told
    if found not in ("E496", "E601", "E610"):
        return str(found)
    hint, _, ring = hint.partition("; with --ring ")
    if ring and int(words[words.index("--rows") + 1]) < 10_000:  # it counts each page
        again, other = reported([*words, "--ring", ring.split()[0]], folder)
        assert again == 0, (told, ring, other["errors"])
    if rows := re.fullmatch(r"([\d,]+) rows like these fit", hint):
        _check_rows(words, int(rows[1].replace(",", "")), folder, told)
        return "E610, rows"
    tried = [*claims(words, hint, folder)]
    nothing = "no larger target" in hint or "golden results are there" in hint
    assert tried or nothing or "fewer" in hint, told
    for claim in tried:
        again, other = reported(claim, folder)
        # a plan fits: the run may still be more than the memory, or the sums of a fit, hold
        more = found != "E610" and again and other["errors"][0]["code"] in ("E610", "E701")
        assert again == 0 or more, (told, claim, other["errors"])
        if again == 0:
            _check_printed(claim, other)
    return f"{found}, {len(tried)} tried"


def reported(words: list[str], folder: Path) -> tuple[int, dict[str, Any]]:
    """Run a command line; return its exit code and its report."""
    (folder / "r.json").unlink(missing_ok=True)
    code = run(words)
    return code, json.loads((folder / "r.json").read_text())


def _check_rows(words: list[str], few: int, folder: Path, told: Any) -> None:
    """So many rows fit, and one more does not."""
    at = words.index("--rows") + 1
    for count, fits in ((few, True), (few + 1, False)):
        again, _ = reported([*words[:at], str(count), *words[at + 1 :]], folder)
        assert (again == 0) == fits, (told, count)


def _capacities(name: str) -> dict[str, int]:
    """Return what a machine has, from the files' own numbers: its part's less its reserve."""
    own = tomllib.loads(Path(name).read_text())["target"] if name.endswith(".toml") else None
    target = own or next(t for t in _data("targets")["target"] if t["name"] == name)
    part = next(p for p in _data("parts")["part"] if p["name"] == target["part"])
    return {r: part.get(r, 0) - target.get("reserve", {}).get(r, 0) for r in _RESOURCES}


def _check_printed(words: list[str], report: dict[str, Any]) -> None:
    name = words[words.index("--target") + 1] if "--target" in words else report["design"]["target"]
    part, have, need, told = target_named(name), _capacities(name), report["resources"], words
    shares = {r: need[r] / have[r] for r in _RESOURCES if need[r]}
    assert max(shares["lut"], shares["ff"]) <= 0.97 and max(shares.values()) <= 1, (told, shares)
    seconds, cycles, full = report["seconds"], report["cycles"], max(shares.values())
    clock = seconds["clock_mhz"]
    assert clock <= part.clock_mhz, told
    if part.board is None and part.clock.evidence != "placed":
        assert abs(clock / (part.clock_mhz * min(1, 1 - (full - 0.8) / 0.4)) - 1) < 0.006, told
    streams = [seconds.get(stage, 0) for stage in ("link", "engine", "results")]
    assert abs(seconds["engine"] - cycles["model"] / clock / 1e6) <= 1e-9 * seconds["engine"], told
    assert abs(seconds["total"] - sum(streams)) <= 1e-9 * seconds["total"], told
    whole = cycles.get("bound_machine", cycles["bound"])
    assert whole <= cycles["bound"] <= cycles["model"], told
    held = report["design"]["config"].get("hbm_bytes", 0)
    if (table := report["table"])["pages"]:
        sizes = dict(re.findall(r"(\w+)=(\d+)", " ".join(words)))
        # a tuple's header, and four bytes a value: those of an input of d values at least
        floor = int(words[words.index("--rows") + 1]) * (24 + 4 * int(sizes.get("d", 0)) // 4 * 4)
        held += max(table["pages"] * part.page_size, floor if words[1].endswith("own.psk") else 0)
    assert held <= (part.memory.bytes or held), told


def claims(words: list[str], hint: str, folder: Path) -> Iterator[list[str]]:
    """Yield a command line for each thing that a hint says fits."""

    def given(more: str, *without: str) -> list[str]:
        """The command line without options, but with others."""
        kept = [*words]
        for flag in (*without, *re.findall(r"--\w+", more)):
            while flag in kept and flag != "--dim":
                del kept[kept.index(flag) : kept.index(flag) + 2]
        return [*kept, *more.split()]

    for flags, part in re.findall(
        r"(?:without (--\w+(?: and --\w+)*) )?it fits(?: on --target (\S+?))?(?:[;,.]|$)", hint
    ):
        if flags or part:
            yield given(f"--target {part}" if part else "", *flags.split(" and "))
    if found := re.search(r"the largest (.*) that fits? (?:is|are) about (\d+(?: and \d+)*)", hint):
        names, most = found[1].split(" and "), found[2].split(" and ")
        sizes = zip(names, most * (len(names) // len(most)), strict=True)
        flags = re.search(r"about [\d and]+, without (--\w+(?: and --\w+)*)", hint)
        plain = given("", *(flags[1].split(" and ") if flags else ()))
        at = [n for n, w in enumerate(plain) if w.partition("=")[0] in names]
        kept = [w for n, w in enumerate(plain) if n not in at and n + 1 not in at]
        yield [*kept, *(w for name, size in sizes for w in ("--dim", f"{name}={size}"))]
    changed = (
        (r"a map of ([\d,]+) items fits", r"capacity=\d+", "capacity={}"),
        (r"the longest window that fits is (?:window\(key, )?(\d+)", r"(?<=\(key, )\d+", "{}"),
    )
    for said, old, new in changed:
        if found := re.search(said, hint):
            place, _, which = words[1].partition(":")
            text = re.sub(old, new.format(found[1].replace(",", "")), Path(place).read_text())
            file = folder / f"fewer{Path(place).suffix}"
            file.write_text(text)
            yield ["model", f"{file}" + f":{which}" * bool(which), *words[2:]]
    for names, form in re.findall(r"on ([\w., -]+?) in (mx8|float16)", hint):
        for name in names.split(", "):
            banks = re.search(r"--banks (\d+) it fits", hint)
            yield given(f"--banks {banks and banks[1]} --format {form} --target {name}")
    if found := re.search(r"write --banks (\d+)", hint):
        yield given(f"--banks {found[1]}")
    if found := re.search(r"choose a target with more memory: (.*?)(?:;|$)", hint):
        yield from (given(f"--target {name}") for name in re.findall(r"([\w.-]+) \(", found[1]))
