"""Kernels as estimators of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from sklearn.base import BaseEstimator
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as missing:  # pragma: no cover - an environment without it
    raise ImportError(
        "ps.Estimator needs scikit-learn: pip install 'penstock[sklearn]'"
    ) from missing

import penstock.api as api
from penstock.design import Design, compile
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.load import load_kernel
from penstock.host.sources import Table
from penstock.runs.run import Run
from penstock.scores.scoring import HOST, on_host, score_design

#: parameters that are options of `ps.compile`
_COMPILED = ("epochs", "metas", "on_singular")
#: no names of a kernel's variables
_WEIGHT, _GROUP = "sample weight", "row group"
_TASKS = ("regression", "classification")


class Estimator(BaseEstimator):
    """A kernel that learns from a table, as scikit-learn's estimators are used.

    * `kernel`: a kernel, or the file that holds it, with one input and one output.
    * `target`: what it is compiled for, as `ps.compile`.
    * `format`: the numbers' format, as `ps.compile`.
    * `task`: "regression": `predict` gives the score, `score` is R². "classification": of two classes;
      `score` is the accuracy.
    * `labels`: the numbers that the kernel's output takes for the first class and the second: (0, 1) for a
      logistic loss, (-1, 1) for a hinge loss. A score above the middle between them is the second class.
    * `backend`: what `fit` runs on, as `Design.run`. `predict` computes with the golden arithmetic, which all
      of them have; fits in float64.
    * `epochs`, `metas`: as `ps.compile`; None: the kernel's own.
    * `on_singular`: of fit kernels: "error" (None), "drop" or "minimum-norm", where the rows do not determine
      all weights.
    * `group_by`: of fit kernels: the column of X, by number or name, of whole numbers whose values are fitted
      each on their own. It is no feature.

    Attributes:

    * `design_` (`Design`)
    * `run_` (`Run`): the training; `run_.to_sql(…)` writes its models into a table.
    * `models_` (`dict`): the learned arrays by name.
    * `coef_`, `intercept_` (`array, float`): of a least-squares fit, its weights and bias; `run_.fit` has its
      statistics. With `group_by` arrays (groups, features) and (groups,), in the order of `groups_`.
    * `groups_` (`list`): with `group_by`, the groups in order.
    * `classes_` (`array`): for classification, the two classes in order.
    * `n_features_in_`, `feature_names_in_`: as scikit-learn has them.

    Raises KernelError, ValueError from `fit`, for kernels without one input, one output and one score, and as
    `ps.compile` and `validate_data` of scikit-learn do.
    """

    def __init__(
        self,
        kernel: AnyKernel | str | Path,
        target: str | None = None,
        *,
        format: str | None = None,
        task: str = "regression",
        labels: tuple[float, float] = (0.0, 1.0),
        backend: str = "golden",
        epochs: int | None = None,
        metas: dict[str, float] | None = None,
        on_singular: str | None = None,
        group_by: int | str | None = None,
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.format = format
        self.task = task
        self.labels = labels
        self.backend = backend
        self.epochs = epochs
        self.metas = metas
        self.on_singular = on_singular
        self.group_by = group_by

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.task == "classification":
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Estimator:
        """Train on rows X (n, features) with labels y (n).

        `sample_weight`: of the rows (n), 0 or more, for fit kernels. Raises ValueError for other kernels.
        """
        if self.task not in _TASKS:
            raise ValueError(f"task must be one of {', '.join(_TASKS)}, not {self.task!r}")
        kernel = self.kernel if isinstance(self.kernel, AnyKernel) else load_kernel(self.kernel)
        if any(p.kind == "index" for p in getattr(kernel, "parameters", ())):
            raise ValueError(
                "an estimator's X is a matrix of numbers, and this kernel has an index: "
                "ps.compile(kernel, table=…).run(…) trains it, run.predict scores rows"
            )
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=self.task == "regression")
        labels = y
        if self.task == "classification":
            check_classification_targets(y)
            self.classes_, numbers = np.unique(y, return_inverse=True)
            if len(self.classes_) != 2:
                classes = "1 class" if len(self.classes_) == 1 else f"{len(self.classes_)} classes"
                raise ValueError(
                    f"Only binary classification is supported: the labels have {classes}"
                )
            labels = np.asarray(self.labels, np.float64)[numbers]
        table = self._table(kernel, X, np.asarray(labels, np.float64), sample_weight)
        options: dict[str, Any] = {name: getattr(self, name) for name in _COMPILED}
        if sample_weight is not None:
            options["sample_weight"] = _WEIGHT
        if self.group_by is not None:
            options["group_by"] = _GROUP
        self.design_: Design = compile(
            kernel, self.target, table=table, format=self.format, **options
        )
        self.run_: Run = self.design_.run(table, self.backend)
        if self.run_.errors:
            raise self._named(self.run_)
        assert self.run_.values is not None
        scoring = self.run_.scoring
        if scoring.backend != HOST:
            self._score_design = score_design(scoring, self._table(None, X[:1]), None)
        self.models_ = {name: np.array(value) for name, value in self.run_.values.items()}
        self.n_iter_ = self.run_.epochs
        if self.run_.fit is not None:
            groups, bias = scoring.groups, self.models_["bias"]
            self.coef_ = self.models_["weights"]
            self.intercept_ = float(bias[0]) if groups is None else bias
            self.groups_ = None if groups is None else list(groups.values)
        return self

    @available_if(lambda self: self.task == "classification")
    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return how far each row's score lies above the boundary, for classification."""
        return self._scores(X) - sum(self.labels) / 2

    def _named(self, run: Run) -> ValueError:
        """Return what ended a training, by the caller's row and column."""
        error = run.errors[0]
        row = None if run.workload is None else run.workload.row_error(error)
        if row is None:
            return ValueError(f"the training ended with an error: {error}")
        return row.called(getattr(self, "feature_names_in_", ()))

    def _scores(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the score of each row: what the kernel compares with its label."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        table, scoring = self._table(None, X), self.run_.scoring
        if scoring.backend == HOST:
            return np.asarray(on_host(scoring, table, table))
        run = self._score_design.run(table)
        if run.errors:
            raise self._named(run)
        assert run.result is not None
        [values] = run.result.values()
        return values

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores of rows, for classification the classes."""
        if self.task == "regression":
            return self._scores(X)
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(int)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions, for classification the accuracy; `sample_weight`: of the rows."""
        measure = r2_score if self.task == "regression" else accuracy_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def _table(
        self,
        kernel: AnyKernel | None,
        X: npt.NDArray[Any],
        y: npt.NDArray[Any] | None = None,
        sample_weight: Any = None,
    ) -> Table:
        """Return rows as a table whose columns bind by the names of the kernel's variables (None: of the kernel that was fitted)."""
        if kernel is not None:
            inputs = [p.name for p in getattr(kernel, "parameters", ()) if p.kind == "input"]
            outputs = [p.name for p in getattr(kernel, "parameters", ()) if p.kind == "output"]
            if self.group_by is not None and "group_by" not in api.options_of(kernel):
                raise ValueError(f"a {kernel.title} takes no group_by: fit kernels do")
            if len(inputs) != 1 or len(outputs) != 1:
                raise ValueError(
                    "an estimator's kernel has one input and one output, not "
                    f"{len(inputs)} and {len(outputs)}"
                )
            self._names = inputs[0], outputs[0]
        one, other = self._names
        features, columns = self._features(X)
        columns |= {one: features, **({} if y is None else {other: y})}
        if sample_weight is not None:
            if kernel is not None and "sample_weight" not in api.options_of(kernel):
                raise ValueError(f"a {kernel.title} takes no sample_weight: fit kernels do")
            columns[_WEIGHT] = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return Table.from_columns(columns)

    def _features(self, X: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Return the columns of features, and that of groups by its name, if there is one."""
        if self.group_by is None:
            return X, {}
        column = self.group_by
        if isinstance(column, str):
            names = getattr(self, "feature_names_in_", np.array([])).tolist()
            if column not in names:
                raise ValueError(f"group_by is {column!r}, which is none of X's columns: {names}")
            column = names.index(column)
        if not -X.shape[1] <= column < X.shape[1]:
            raise ValueError(f"group_by is {column}, and X has {X.shape[1]} columns")
        groups = X[:, column]
        if (odd := groups != np.rint(groups)).any():
            raise ValueError(f"groups are whole numbers, not {groups[odd][0]:g}")
        return np.delete(X, column, axis=1), {_GROUP: groups.astype(np.int64)}
