"""How right trained weights are: beside a float64 run of the same updates in every format, and beside scikit-learn on the bundled tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from common import EXAMPLES, SEED, Options, Section, kernel, main, markdown, versions

from penstock.api import Design, compile
from penstock.dsl.analytics import interp
from penstock.dsl.core.bind import bind
from penstock.host.sources import open_table
from penstock.models.numerics.formats import Format, parse_format

FORMATS = ("float32", "bfloat16", "fixed:8,24")
#: example -> table, other dimensions, whether it sorts into classes, what scikit-learn calls it
CASES: dict[str, tuple[str, dict[str, int], bool | None, str]] = {
    "logistic": ("cancer", {}, True, "LogisticRegression"),
    "svm": ("cancer_svm", {}, True, "LinearSVC"),
    "mlp": ("cancer", {"h": 8}, True, "MLPClassifier(8)"),
    "linear": ("diabetes", {}, False, "LinearRegression"),
    "ridge": ("diabetes", {}, False, "Ridge"),
    "lrmf": ("ratings", {"m": 24, "n": 32, "k": 4}, None, ""),
}


def epsilon(fmt: Format, largest: float) -> float:
    """Return the distance of neighbouring numbers around `largest`, relative to it."""
    codes = fmt.encode(np.asarray([largest]))
    near = [abs(float(fmt.decode(codes + step)[0] - fmt.decode(codes)[0])) for step in (-1, 1)]
    return max(near) / largest


def reference(
    design: Design, name: str, table: Any, dims: dict[str, int], epochs: int
) -> dict[str, np.ndarray]:
    """Return the models of a float64 run of the same updates on the table's rows."""
    learner = kernel(name)
    binding = bind(learner, table.schema, None, dims)
    graph = learner.trace(binding.dims)
    columns = table.columns()
    indices = {name: np.asarray(columns[name]) for name in binding.indices}
    stored = [
        np.asarray(columns[column.name], dtype=np.float64).reshape(table.rows, -1)
        for column in table.schema.columns
    ]
    given = {
        variable: np.concatenate(
            [stored[s.attribute][:, s.first : s.first + s.count] for s in sources], axis=1
        )
        for variable, sources in binding.fields.items()
    }
    return interp.run(graph, given | indices, epochs=epochs).models


def quality(name: str, models: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of rows that are sorted rightly, or the coefficient of determination."""
    if name == "mlp":
        score = np.tanh(x @ models["A"].T + models["a"]) @ models["v"]
    else:
        score = x @ models["w"] + models.get("b", 0.0)
    if CASES[name][2]:
        return float(np.mean((score > 0) == (y > 0)))
    return float(1 - np.sum((score - y) ** 2) / np.sum((y - y.mean()) ** 2))


def theirs(name: str, x: np.ndarray, y: np.ndarray) -> float:
    """Return the same of scikit-learn's model, fitted to the same rows."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import LinearSVC

    made = {
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "svm": lambda: LinearSVC(),
        "linear": lambda: LinearRegression(),
        "ridge": lambda: Ridge(),
        "mlp": lambda: MLPClassifier((8,), activation="tanh", max_iter=5000, random_state=SEED),
    }[name]()
    return float(made.fit(x, y).score(x, y))


@dataclass
class Found:
    """Rows of both tables, and what is named below them."""

    errors: list[str] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)

    def trained(
        self, name: str, number: str, table: Any, options: Options
    ) -> dict[str, np.ndarray]:
        """Train in a format; note the error beside float64, and return the models."""
        fmt, dims = parse_format(number), CASES[name][1]
        epochs = 1 if options.quick else None
        design = compile(kernel(name), "ulx3s-85f-sdram", table, number, dims=dims, epochs=epochs)
        run = design.run(table, "golden")
        assert run.result is not None
        exact = reference(design, name, table, dims, run.epochs)
        largest = max(float(np.abs(value).max()) for value in exact.values())
        apart = max(float(np.abs(run.result[key] - value).max()) for key, value in exact.items())
        error, unit, updates = apart / largest, epsilon(fmt, largest), run.counters["batches"]
        if error > unit * updates:
            self.outside.append(f"{name} in {number}")
        self.errors.append(
            f"{name} | {number} | {f'{run.epochs}' + (' (converged)' if run.converged else '')} | {updates:,} | {largest:.4f} | "
            f"{error:.2e} | {error / unit:.1f} ε | {error / unit / updates:.3f} ε"
        )
        return run.result

    def case(self, name: str, options: Options) -> None:
        """Train an example in all formats; where it has labels, score the models beside scikit-learn's."""
        data, _, sorts, peer = CASES[name]
        table = open_table(f"heap:{EXAMPLES / 'data' / data}.heap,{EXAMPLES / 'data' / data}.json")
        models = [self.trained(name, number, table, options) for number in FORMATS]
        if sorts is None:
            return
        columns = table.columns()
        x, y = np.asarray(columns["x"], dtype=float), np.asarray(columns["y"], dtype=float)
        scores = [quality(name, model, x, y) for model in models]
        fitted = theirs(name, x, y)
        self.scores.append(
            f"{name}, {data} | {'accuracy' if sorts else 'R²'} | {' | '.join(f'{value:.2%}' for value in scores)} | {fitted:.2%} ({peer})"
        )
        self.apart += [
            f"{name} in {number}"
            for number, value in zip(FORMATS, scores, strict=True)
            if value < fitted - 0.01
        ]


HEADS = "example | format | epochs | updates | largest weight | greatest error ÷ largest weight | the same in ε | ε an update"


def make(options: Options) -> str:
    found = Found()
    for name in list(CASES)[: 1 if options.quick else None]:
        found.case(name, options)
    return (
        markdown(HEADS, found.errors)
        + "\n\nWithin one ε an update: "
        + (f"all but {', '.join(found.outside)}." if found.outside else "all.")
        + "\n\n"
        + markdown(f"example, table |  | {' | '.join(FORMATS)} | scikit-learn", found.scores)
        + "\n\nMore than one point below scikit-learn: "
        + (f"{', '.join(found.apart)}." if found.apart else "none.")
        + f"\n\nWith {versions('scikit-learn', 'numpy')}."
    )


SECTIONS = [Section("accuracy", False, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
