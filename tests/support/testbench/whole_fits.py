"""Whole fit kernels in every spelling that the dialect takes, and what holds of their fits in rational arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import penstock as ps
from penstock.dsl.core.load import from_text, load_kernel
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.numerics.formats import float32
from penstock.models.qr.job import Fit, Job, Window

__all__ = ["KeyFit", "drawn_keys", "key_faults", "spelled"]


def spelled(
    random: Random, parameters: dict[str, str], features: str, target: str, said: dict[str, Any]
) -> tuple[str, str]:
    """Return a kernel and its file's suffix. `parameters`: their kinds as texts have them; `said`: options of the fit."""
    python = random.random() < 0.5
    outside = {n: v for n, v in said.items() if python and random.random() < 0.5}
    inner = {n: v for n, v in said.items() if n not in outside or random.random() < 0.2}
    words = [f"{name}={value!r}".replace("'", '"') for name, value in inner.items()]
    if python:
        features, target = (
            t.replace("window(", "ps.window(").replace("rank(", "ps.rank(").replace("slot(", "ps.slot(")
            for t in (features, target)
        )  # fmt: skip
    lines = []
    if random.random() < 0.3:
        lines, features = [f"part = {features}"], "part"
    if random.random() < 0.3:
        lines, target = [*lines, f"goal = {target}"], "goal"
    first = random.choice(([features, f"target={target}"], [features, target]))
    if random.random() < 0.2:
        first = [f"target={target}", f"features={features}"]
    call = f"least_squares({', '.join([*first, *words])})"
    if not python:
        heads = ", ".join(f"{name}: {kind}" for name, kind in parameters.items())
        return f"fit f({heads})\n" + "".join(f"  {x}\n" for x in [*lines, f"w <- {call}"]), ".psk"
    heads = ", ".join(f"{name}: ps.{_python(kind)}" for name, kind in parameters.items())
    decorator = f"({', '.join(f'{n}={v!r}' for n, v in outside.items())})" if outside else ""
    body = "".join(f"    {x}\n" for x in [*lines, f"return ps.{call}"])
    return f"import penstock as ps\n\n@ps.fit{decorator}\ndef f({heads}):\n{body}", ".py"


def _python(kind: str) -> str:
    name, _, size = kind.partition("[")
    return name.capitalize() + (
        f"[{size}" if size.isdigit() or size[:-1].isdigit() else f'["{size[:-1]}"]' if size else ""
    )


def loaded(text: str, suffix: str, folder: Any) -> Any:
    """Return the kernel of a text or of a Python file."""
    if suffix == ".psk":
        return from_text(text, "f.psk")
    path = folder / f"f{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    return load_kernel(str(path))


# -- fits over keys


@dataclass(frozen=True)
class KeyFit:
    """A fit over keys: its text, what that says, and a run of it."""

    text: str
    suffix: str
    longest: int
    target: str
    method: str
    keys: tuple[str, ...]
    changes: Changes

    def run(self, folder: Any, backend: str = "golden") -> tuple[Any, Any, Any]:
        """Return the design, the work and the run."""
        kernel = loaded(self.text, self.suffix, folder)
        design = ps.compile(kernel, "vu9p" if self.longest > 7 else "small")
        columns = {"id": list(range(len(self.keys))), "url": list(self.keys)}
        table = Table.from_columns(columns)
        given = ps.engines.base.Given(data=table, options={"changes": self.changes})
        run = design.run(table, backend, changes=self.changes)
        return design, design.workload(given), run


def drawn_keys(random: Random) -> KeyFit:
    longest = random.choice((1, 2, 3, 4, 5, 7, 9))
    target = random.choice(("rank", "slot"))
    values = {"method": random.choice(("gram", "givens")), "incremental": target == "slot"}
    said = {name: value for name, value in values.items() if random.random() < 0.5}
    written = random.choice((str(longest), f"2 * {longest} - {longest}"))
    name = random.choice(("key", "k"))
    text, suffix = spelled(
        random, {name: "key"}, f"window({name}, {written})", f"{target}({name})", said
    )
    changes = Changes(
        random.choice((1, 1, 2, 3)), random.choice((0, 1, 3)), random.choice((0, 1, 4)), random.choice((0, 0, 1, 2)),
    )  # fmt: skip
    letters = random.choice(("ab", "abc", "abcdefghijklmnop", "".join(map(chr, range(33, 126)))))
    shared, width = random.choice(("", "", "k", "http://")), random.choice((2, 4, 7, 10))
    while len(letters) ** width < 200:
        width += 1
    count = changes.groups * (random.choice((4, 9, 20, 33)) + changes.refits * changes.new)
    count += changes.groups * changes.refits * changes.gone
    made: dict[str, None] = {}
    while len(made) < count:
        word = "".join(
            random.choice(letters) for _ in range(random.choice((width, width, width + 3)))
        )
        made[shared + word] = None
    return KeyFit(
        text, suffix, longest, target, str(said.get("method", "gram")), tuple(made), changes,
    )  # fmt: skip


def _labels(rows: NDArray[np.uint8], job: Job, target: str) -> list[int]:
    """What a model of these rows has to predict."""
    if target == "rank":
        assert job.labels is None
        return list(range(len(rows)))
    assert job.labels is not None and (np.diff(job.labels) > 0).all() and (job.labels >= 0).all()
    return [int(b) for b in job.labels]


def _predicted(weights: Sequence[np.float32], row: Sequence[int]) -> int:
    """P of docs/explanation/qr.md: products rounded to float32, added in a balanced tree."""
    terms = [np.float32(np.float32(w) * np.float32(x)) for w, x in zip(weights, row, strict=True)]
    while len(terms) > 1:
        terms += [np.float32(0)] * (len(terms) % 2)
        terms = [np.float32(a + b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return min(max(int(terms[0]), 0), (1 << 31) - 1)


def _roundings(method: str, rows: int, columns: int) -> int:
    """How many times float32's u = 2⁻²⁴ an entry g_ij of AᵀA is changed at most, in units of √(g_ii g_jj).

    The weights w solve (AᵀA + E) w = c + e exactly. Elimination takes 3 rounded operations for each step of an entry (Higham 2002, theorem 10.3
    with them in place of one), two triangular solves 3 each, the diagonal 2, and rounding entries 2: below 9 n + 9 in all, as Σ d_k u_ki u_kj is at most
    √(g_ii g_jj). A rotation of `givens` has 8 rounded numbers in its two products d' u'_i u'_j and δ' x'_i x'_j, neither more than √(g_ii g_jj); each
    counts twice there, so that 32 do for the first order and all others; rows and columns that are folded again meet n at most.
    """
    folded = 32 * (rows + columns) * columns if method == "givens" else 0
    return 9 * columns + 9 + folded


def _equations(a: list[list[int]], b: list[int], fit: Fit, method: str, folded: int) -> list[str]:
    """What of the normal equations does not hold within float32's rounding, in rational arithmetic."""
    n = len(a[0])
    gram = [[sum(r[i] * r[j] for r in a) for j in range(n)] for i in range(n)]
    side = [sum(r[i] * y for r, y in zip(a, b, strict=True)) for i in range(n)]
    wrong = []
    if [int(c) for c in fit.memo.right_hand_side] != side:
        wrong.append("c is not that of the rows")
    if method == "gram" and fit.memo.gram is not None:
        if any(int(fit.memo.gram[i, j]) != gram[i][j] for i in range(n) for j in range(i, n)):
            wrong.append("the sums are not those of the rows")
    weights = [Fraction(float(w)) for w in fit.values]
    kept = [k for k in range(n) if fit.mask[k]]
    if any(weights[k] for k in range(n) if k not in kept):
        wrong.append("a column without a weight has one")
    if not a or 0 not in kept:
        return wrong
    # the right side is about the labels' mean, of which the bias takes its own back, rounded
    middle = Fraction(int(Fraction(side[0], len(a))))
    own = list(weights)
    own[0] -= middle
    root = [
        Fraction(float(np.sqrt(float(gram[k][k])))) * (1 + Fraction(1, 1 << 50)) for k in range(n)
    ]
    unit, steps = Fraction(1, 1 << 24), _roundings(method, folded, n)
    # Σ √g_jj |w_j| of the computed solution; the middle may be one less by rounding
    size = sum(root[k] * abs(own[k]) for k in kept) + root[0] * 2
    for i in kept:
        rest = side[i] - middle * gram[i][0] - sum(gram[i][k] * own[k] for k in kept)
        away = unit * (steps * root[i] * size + abs(side[i] - middle * gram[i][0]))
        away += unit * abs(gram[i][0]) * (abs(weights[0]) + 1)
        if abs(rest) > away:
            wrong.append(f"equation {i} is {float(rest):.3g} away, not {float(away):.3g}")
    return wrong


def _exact_bounds(a: list[list[int]], b: list[int], fit: Fit) -> tuple[int, int]:
    errors = [y - _predicted(fit.values, r) for r, y in zip(a, b, strict=True)]
    return (min(errors), max(errors)) if errors else (1, 0)


def key_faults(made: KeyFit, design: Any, work: Any, run: Any) -> list[str]:
    """Return what of a golden run is not as the kernel and rational arithmetic say."""
    plan = design.plan
    own = (plan.method, plan.target)
    wrong = [] if own == (made.method, made.target) else [f"the engine is {own}"]
    random_ = design.refits(20 * made.changes.groups, changes=made.changes)
    if any(window.length != made.longest for _, window in random_.loaded):
        wrong.append("random keys have other windows")
    if design.trainer().longest != made.longest:
        wrong.append("an index has other windows")
    weights = np.asarray(float32.decode(run.codes["weights"]), dtype=np.float32)
    folded, place = {}, -1
    replayed = _groups(made, work.rounds[0].jobs)
    for number, step in enumerate(work.rounds):
        for job, fit in zip(step.jobs, step.fits, strict=True):
            place += 1
            own = weights[place, : len(fit.values)]
            if not np.array_equal(own, fit.values):
                wrong.append("what a run returns is not what was fitted")
            if job.window.length > made.longest:
                wrong.append(f"a window has {job.window.length} bytes")
            window: Window = job.window
            keys = replayed[job.group].at(number, window, job.rows)
            left = replayed[job.group].count(number) - number * made.changes.gone
            if len(job.rows) != left or not np.array_equal(job.rows, keys):
                wrong.append(f"round {number}: the rows are not the group's keys")
            rows = [
                [1, *(int(x) - int(o) for x, o in zip(r, job.offsets, strict=True))]
                for r in job.rows
            ]
            labels = _labels(job.rows, job, made.target)
            if job.memo is None:
                folded[job.group] = 0
            folded[job.group] = folded.get(job.group, 0) + len(job.rows)
            if rows:
                wrong += _equations(rows, labels, fit, made.method, folded[job.group])
            low, high = _exact_bounds(rows, labels, fit)
            if not (fit.err_min <= low and high <= fit.err_max) and rows:
                wrong.append(
                    f"an error of {low} to {high} lies outside {fit.err_min} to {fit.err_max}"
                )
            if fit.rescanned and (fit.err_min, fit.err_max) != (low, high):
                wrong.append(
                    f"bounds of a pass are {fit.err_min} to {fit.err_max}, not {low} to {high}"
                )
            if job.memo is None or made.target == "rank":
                wrong += [] if fit.rescanned else ["bounds of no pass"]
    return wrong


class _Group:
    """The keys of one group, replayed: those that came in the order of their arrival. Which rows go is the workload's choice."""

    def __init__(self, first: list[bytes], rounds: list[list[bytes]]) -> None:
        self.first, self.rounds = first, rounds

    def count(self, number: int) -> int:
        """Keys that had come after so many rounds."""
        return len(self.first) + sum(map(len, self.rounds[:number]))

    def at(self, number: int, window: Window, live: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The group's rows after so many rounds, those left out that went: any that are not among `live`."""
        keys = sorted(self.first + [k for own in self.rounds[:number] for k in own])
        end = window.prefix + window.length
        cuts = [k[window.prefix : end].ljust(window.length, b"\0") for k in keys]
        rest = [row.tobytes() for row in live]
        kept = []
        for cut in sorted(cuts):
            if cut in rest:
                rest.remove(cut)
                kept.append(cut)
        made = b"".join(kept)
        return np.frombuffer(made, dtype=np.uint8).reshape(-1, window.length)


def _groups(made: KeyFit, jobs: Sequence[Job]) -> dict[int, _Group]:
    """Deal the keys: those at first in equal runs of their order, later ones to the run that they belong to, round by round."""
    keys, changes = [k.encode() for k in made.keys], made.changes
    later = changes.groups * changes.refits * changes.new
    first, rest = sorted(keys[: len(keys) - later]), keys[len(keys) - later :]
    cuts = [len(first) * g // changes.groups for g in range(changes.groups + 1)]
    out = {}
    for number, job in enumerate(jobs):
        own = first[cuts[number] : cuts[number + 1]]
        ends = first[cuts[number + 1]] if number + 1 < changes.groups else None
        come = [k for k in rest if (number == 0 or k >= own[0]) and (ends is None or k < ends)]
        rounds = [
            come[len(come) * r // changes.refits : len(come) * (r + 1) // changes.refits]
            for r in range(changes.refits)
        ]
        out[job.group] = _Group(own, rounds)
    return out
