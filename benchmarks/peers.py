"""One epoch in modelled hardware beside what CPUs do: MADlib, scikit-learn, and raw pages read into NumPy.

`peers` sets modelled epochs beside peers' times that were measured earlier; `peers-now` measures scikit-learn and raw pages here, in the
same run as the ratios that it prints.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# one thread, as the lines of the page are; before NumPy loads its library
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import (
    SHAPES,
    Options,
    Section,
    machine,
    main,
    markdown,
    merged,
    ms,
    random_table,
    repeated,
    schema,
    spread,
    versions,
)

from penstock.api import Table, assume, compile
from penstock.models.heap.page import PAGE_HEADER, PAGE_HEADER_SIZE

TARGETS = ("ulx3s-85f-sdram", "vu9p", "u55c")
BATCH = 256
#: pages read at a time, of all powers of two the fastest here
BLOCK = 128
#: which kernel is trained at a shape
TASKS = {54: "logistic", 520: "logistic", 384: "linear", 280: "linear"}
#: seconds an epoch as measured on the same machine type, 2026-11-20/21, medians: MADlib's marginal SVM IGD epoch (real[]), scikit-learn's
#: SGDClassifier(log_loss) or SGDRegressor on arrays in memory, and heap file -> NumPy view -> mini-batches of 256 on one thread
STATED = {
    54: (0.682, 0.189, 0.0595),
    520: (0.105, 0.0231, 0.0141),
    384: (0.216, 0.0523, 0.0225),
    280: (0.167, 0.0385, 0.0190),
}
PEERS = ("MADlib", "scikit-learn", "raw pages in NumPy")


def epochs(features: int, rows: int) -> dict[tuple[str, int], float]:
    """Return the seconds of a modelled epoch by target and batch size."""
    found = {}
    for target in TARGETS:
        for count in (16, BATCH):
            design = compile(merged(TASKS[features], count), target, schema(features))
            run = design.run(assume(design.plan.schema, rows), "model", epochs=1)
            assert run.cycles is not None
            found[target, count] = run.cycles / design.target.clock_mhz / 1e6
    return found


def verdicts(
    ours: dict[int, dict[tuple[str, int], float]],
    theirs: dict[int, tuple[float, ...]],
    peers: tuple[str, ...],
) -> str:
    """Return the table of ratios, theirs ÷ ours, and in a sentence a target what is beaten."""
    rows, lines = [], []
    for target in TARGETS:
        for place, peer in enumerate(peers):
            ratios = [theirs[features][place] / ours[features][target, BATCH] for features in ours]
            rows.append(
                (
                    target,
                    peer,
                    *(f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}" for ratio in ratios),
                )
            )
            beaten = [
                str(features) for features, ratio in zip(ours, ratios, strict=True) if ratio > 1
            ]
            lost = [str(features) for features in ours if str(features) not in beaten]
            lines.append(
                f"{target} {'beats' if beaten else 'does not beat'} {peer}"
                + (
                    ""
                    if not lost
                    else f" at {' and '.join(beaten)} features, not at {' and '.join(lost)}"
                    if beaten
                    else " at any shape"
                )
            )
    return (
        markdown(("target", "peer", *(f"{features} features" for features in ours)), rows)
        + "\n\n"
        + "; ".join(lines)
        + "."
    )


def stated(options: Options) -> str:
    rows, ours = [], {}
    for features, (name, count) in SHAPES.items():
        if options.quick and features != 54:
            continue
        ours[features] = epochs(features, count)
        rows.append(
            (
                f"{name}, {count:,} × {features}, {TASKS[features]}",
                *map(ms, STATED[features]),
                *map(ms, ours[features].values()),
            )
        )
    head = (
        "table, kernel",
        "MADlib",
        "scikit-learn",
        "raw pages",
        *(f"{target}, merge {count}" for target in TARGETS for count in (16, BATCH)),
    )
    return (
        f"Milliseconds an epoch:\n\n{markdown(head, rows)}\n\nPeer's time ÷ ours with merge {BATCH} (bold: beaten):\n\n"
        + verdicts(ours, {features: STATED[features] for features in ours}, PEERS)
    )


# the peers that are measured here


def file_epoch(path: Path, features: int, task: str, rate: float = 0.1) -> np.ndarray:
    """Train one epoch from a heap file: read some pages, look at their tuples through one strided view, step once for every 256.

    It takes what a Strider takes from the table's schema: all tuples have one size, and lie from the end of the page downwards. The last page, which
    need not be full, is walked alone. Nothing is checked.
    """
    size = (24 + 8 + 24 + 4 * features + 7) // 8 * 8  # header, id and y, array header, elements
    buffer = np.empty((BLOCK, 8192), dtype=np.uint8)
    w, bias = np.zeros(features, dtype=np.float32), np.float32(0)
    left = path.stat().st_size // 8192
    with path.open("rb", buffering=0) as file:
        while left:
            part = buffer[: min(BLOCK, left - 1) or 1]
            file.readinto(part)
            left -= len(part)
            count = (
                int(part[0, :PAGE_HEADER_SIZE].view(PAGE_HEADER)["pd_lower"][0]) - PAGE_HEADER_SIZE
            ) // 4
            tuples = np.lib.stride_tricks.as_strided(
                part[:, 8192 - size :], (len(part), count, size), (8192, -size, 1)
            )
            rows = (
                np.ascontiguousarray(tuples[:, :, 24 : 56 + 4 * features])
                .view(np.float32)
                .reshape(-1, 8 + features)
            )
            for start in range(0, len(rows), BATCH):
                y, x = rows[start : start + BATCH, 1], rows[start : start + BATCH, 8:]
                score = x @ w + bias
                error = (1 / (1 + np.exp(-score)) if task == "logistic" else score) - y
                step = np.float32(rate / len(y))
                w -= step * (error @ x)
                if task == "linear":
                    bias -= step * error.sum()
    return np.append(w, bias)


def learn(table: Table, features: int) -> None:
    """See that the NumPy line reads the table's own rows: its first step from one page must be that of the columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one"
        table.pages[:2].tofile(path)
        part = Table(table.schema, table.pages[:2])
        rows = part.columns()
        w, wanted = file_epoch(path, features, "linear"), np.zeros(features + 1)
        x, y = (
            np.column_stack([rows["x"], np.ones(len(rows["y"]))]).astype(float),
            np.asarray(rows["y"], dtype=float),
        )
        first = len(y) // 2  # a page's tuples make its blocks
        for block in (slice(0, first), slice(first, None)):
            for start in range(0, len(y[block]), BATCH):
                a, b = x[block][start : start + BATCH], y[block][start : start + BATCH]
                wanted -= 0.1 / len(b) * ((a @ wanted - b) @ a)
        assert np.allclose(w, wanted, rtol=1e-3, atol=1e-4), (
            "the peer reads other numbers than the table's"
        )


def now(options: Options) -> str:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    head, rows, ours, theirs = machine(), [], {}, {}
    for features, (name, full) in SHAPES.items():
        if options.quick and features != 54:
            continue
        count, times, task = (
            (2000, 2, TASKS[features]) if options.quick else (full, 7, TASKS[features])
        )
        table = random_table(
            features, count, "classification" if task == "logistic" else "regression"
        )
        learn(table, features)
        columns = table.columns()
        x, y = (
            np.ascontiguousarray(columns["x"], dtype=np.float32),
            np.asarray(columns["y"], dtype=np.float32),
        )
        settings = {"max_iter": 1, "tol": None, "random_state": 1}
        model = (
            SGDClassifier(loss="log_loss", **settings)
            if task == "logistic"
            else SGDRegressor(**settings)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "heap"
            table.pages.tofile(path)
            file_epoch(path, features, task)  # the file is in the page cache from here on
            raw = repeated(
                lambda path=path, features=features, task=task: file_epoch(path, features, task),
                times,
            )
        model.fit(x, y)
        sgd = repeated(lambda model=model, x=x, y=y: model.fit(x, y), min(times, 5))
        ours[features] = epochs(features, count)
        theirs[features] = (float(np.median(sgd)), float(np.median(raw)))
        rows.append(
            (
                f"{name}, {count:,} × {features}, {task}",
                spread(sgd, ms),
                spread(raw, ms),
                f"{table.pages.nbytes / np.median(raw) / 1e9:.2f}",
                *(ms(ours[features][target, BATCH]) for target in TARGETS),
            )
        )
    titles = (
        "table, kernel",
        "scikit-learn, ms",
        "raw pages in NumPy, ms",
        "GB/s of pages",
        *(f"{target}, modelled ms" for target in TARGETS),
    )
    return (
        f"{head} {versions('scikit-learn')}, one thread.\n\n{markdown(titles, rows)}\n\nPeer's time ÷ ours with merge {BATCH} (bold: beaten):\n\n"
        + verdicts(ours, theirs, PEERS[1:])
    )


SECTIONS = [Section("peers", False, stated), Section("peers-now", True, now)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
