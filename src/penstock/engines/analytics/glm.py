"""Kernels that are generalised linear models, and scikit-learn's model of each as a peer."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.analytics import interp
from penstock.dsl.core.graph import Graph
from penstock.host.peers import Peer

_Array = NDArray[Any]
#: numbers of a batch that is looked at
_MOST = 1 << 25
#: what is said where scikit-learn has nothing like a kernel
NONE = "no scikit-learn model"
#: by model the derivative of a row's loss by its score, and labels that it has (none: numbers)
_SLOPES: dict[str, tuple[Callable[[_Array, _Array], _Array], tuple[float, ...]]] = {
    "linear": (lambda score, y: score - y, ()),
    "logistic": (lambda score, y: 1 / (1 + np.exp(-score)) - y, (0.0, 1.0)),
    "svm": (lambda score, y: np.where(y * score < 1, -y, 0.0), (-1.0, 1.0)),
}


def loss(kind: str, score: _Array, y: _Array) -> float:
    """Return the mean loss: squared, logistic or hinge."""
    if kind == "linear":
        return float(np.mean((score - y) ** 2))
    if kind == "svm":
        return float(np.mean(np.maximum(0, 1 - y * score)))
    return float(np.mean(np.logaddexp(0, np.where(y > 0, -score, score))))


@dataclass(frozen=True)
class Glm:
    """A model by gradient descent: `kind` of `loss`; names of inputs, label, weights and bias; `step`: of a batch's mean gradient."""

    kind: str
    x: str
    y: str
    w: str
    b: str | None
    step: float

    def score(self, x: _Array, models: Mapping[str, _Array]) -> _Array:
        return x @ np.ravel(models[self.w]) + (float(models[self.b]) if self.b else 0.0)


@np.errstate(all="ignore")  # of kernels that are something else
def recognised(graph: Graph) -> Glm | None:
    """Return the model that a kernel learns, with or without weight decay; None for another.

    Its first two updates on random rows are looked at, not its text.
    """
    (xs, ys), models = (graph.of_kind(k) for k in ("input", "output")), graph.of_kind("model")
    weights = [v.name for v in models if len(xs) == 1 and v.shape == xs[0].shape]
    if len(ys) != 1 or ys[0].shape or len(weights) != 1 or len(models) > 2:
        return None
    bias = next((v.name for v in models if v.name not in weights and not v.shape), None)
    if len(xs[0].shape) != 1 or (bias is None and len(models) == 2):
        return None
    source, size = np.random.default_rng(1), graph.merge_count or 8
    if size * xs[0].shape[0] > _MOST:
        return None
    x = source.normal(0, 10, (2 * size, *xs[0].shape))
    # rows of the first and of the second update, and the run that ends with it
    batches = [slice(0, size), slice(size, 2 * size) if graph.merge_count else slice(0, size)]
    runs = [(size, 0), (size, 1), (2 * size, 1) if graph.merge_count else (size, 2)]
    for kind, (slope, labels) in _SLOPES.items():
        model = Glm(kind, xs[0].name, ys[0].name, weights[0], bias, 0.0)
        y = source.choice(labels, 2 * size) if labels else source.normal(size=2 * size)
        states = [
            interp.run(graph, {model.x: x[:rows], model.y: y[:rows]}, epochs=epochs).models
            for rows, epochs in runs
        ]
        slopes, changes = [], []
        for rows, (before, after) in zip(batches, pairwise(states), strict=True):
            error, w = (
                slope(model.score(x[rows], before), y[rows]) / size,
                np.ravel(before[model.w]),
            )
            mean = np.append(error @ x[rows], error.sum() if bias else [])
            slopes.append(np.column_stack([mean, np.append(w, [0.0] * bool(bias))]))
            moved = [np.ravel(before[name] - after[name]) for name in (model.w, bias) if name]
            changes.append(np.concatenate(moved))
        matrix, change = np.concatenate(slopes), np.concatenate(changes)
        step, decay = np.linalg.lstsq(matrix, change, rcond=None)[0]
        if step > 0 and np.allclose(change, matrix @ [step, decay], 1e-6, 1e-9):
            return replace(model, step=float(step))
    return None


def scikit_learn(
    graph: Graph, table: Mapping[str, _Array], epochs: int, models: Mapping[str, _Array]
) -> Peer | str:
    """Return scikit-learn's model of a kernel, to our loss at most, or why there is none; `models`: as we learn them."""
    model = recognised(graph)
    if model is None:
        return NONE
    try:
        from sklearn import linear_model
    except ImportError:
        return "scikit-learn is not installed"
    x, y = np.asarray(table[model.x], np.float64), np.ravel(table[model.y]).astype(np.float64)
    labels = _SLOPES[model.kind][1]
    if labels and set(np.unique(y[: max(1, len(y) // 64)])) != set(labels):
        return f"{NONE}: labels are not both {labels[0]:g} and {labels[1]:g}"
    options: dict[str, Any] = {"fit_intercept": model.b is not None}
    each = model.step / (graph.merge_count or len(y))  # it learns row by row
    fixed = {"learning_rate": "constant", "eta0": each, "max_iter": epochs, "tol": None}
    make: Callable[[], Any] = {
        "linear": lambda: linear_model.LinearRegression(**options),
        "logistic": lambda: linear_model.LogisticRegression(C=1e12, **options),
        "svm": lambda: linear_model.SGDClassifier(penalty=None, shuffle=False, **fixed, **options),
    }[model.kind]

    def run(arrays: tuple[_Array, _Array], count: int, threads: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what did not converge: its loss says it
            return make().fit(arrays[0][:count], arrays[1][:count])

    def reached(fit: Any) -> float:
        return loss(model.kind, x @ np.ravel(fit.coef_) + np.ravel(fit.intercept_), y)

    goal = loss(model.kind, model.score(x, models), y) * (1 + 1e-3)
    name = f"scikit-learn's {type(make()).__name__}"
    return Peer(name, len(y), lambda: (x, y), run, reached, model.kind != "svm", goal)
