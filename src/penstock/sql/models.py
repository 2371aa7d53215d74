"""The trainings behind the functions: a kernel each, what is done to its rows before, and the out tables' columns."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.load import from_text
from penstock.models.errors import Error
from penstock.runs.run import Run

_Array = NDArray[Any]
_Found = tuple[list[dict[str, Any]], dict[str, Any]]
#: what is compiled for unless options say otherwise: a part whose many threads the golden model computes as arrays
_TARGET = "u55c"
#: accelerated gradient descent (Nesterov 1983), all rows in a step
_DESCENT = """
  {x} <- u + {rate} * step
  v <- w
  t <- t + 1
  until norm(step) < tolerance
""".replace("{x}", "w")
_LOGISTIC = f"""kernel logistic(x: input[d], y: output, w: model[d], v: model[d], t: model, tolerance: meta)
  u = w + t / (t + 3) * (w - v)
  step = mean((y - sigmoid(sum(u * x))) * x)
{_DESCENT.format(rate=4).strip(chr(10))}
"""
#: the hinge is a parabola over this width, so that its slope changes gently
_WIDTH = 0.1
_SVM = f"""kernel svm(x: input[d], y: output, w: model[d], v: model[d], t: model, tolerance: meta)
  u = w + t / (t + 3) * (w - v)
  s = (1 - y * sum(u * x)) / {_WIDTH}
  slope = where(s > 1, 1, where(s > 0, s, 0))
  step = mean(slope * y * x) - u @ PENALTY
{_DESCENT.format(rate=_WIDTH).strip(chr(10))}
"""
#: options of the function `train`
_OPTIONS = "target format epochs metas dims on_nan on_overflow on_singular refine limbs threads lanes".split()


class Said(Exception):
    """A user's mistake."""

    def __init__(self, message: str, hint: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.said = {"message": message, "detail": detail, "hint": hint}


def _run(
    kernel: str, columns: Mapping[str, _Array], bind: Mapping[str, Any], **options: Any
) -> Run:
    """Train on columns, by the golden model. Raises KernelError for a kernel and for rows that it cannot learn from."""
    from penstock.api import compile

    try:
        design = compile(
            from_text(kernel, "kernel"),
            options.pop("target", _TARGET),
            dict(columns),
            bind=bind,
            **options,
        )
    except Error:
        raise
    except (TypeError, ValueError) as problem:
        raise Said(str(problem), "docs/howto/sql.md has the options") from problem
    run = design.run(dict(columns), "golden")
    if run.errors:
        row_error = None if run.workload is None else run.workload.row_error(run.errors[0])
        raise Said(str(row_error or run.errors[0]), run.errors[0].hint)
    return run


def _columns(x: _Array, y: _Array) -> tuple[dict[str, _Array], list[str]]:
    """Return features by name, the label last, and the names."""
    names = [f"x[{k + 1}]" for k in range(x.shape[1])]
    return {**dict(zip(names, x.T, strict=True)), "y": y}, names


def linregr(x: _Array, y: _Array, skipped: int, options: Mapping[str, Any]) -> _Found:
    """Least squares: a column that is constant stands for the bias."""
    _finite(x), _finite(y, "the dependent variable")
    columns, names = _columns(x, y)
    constant = next(
        (k for k in range(len(names)) if len(names) > 1 and x[0, k] and (x[:, k] == x[0, k]).all()),
        None,
    )
    used = [k for k in range(len(names)) if k != constant]
    intercept = "" if constant is not None else ", intercept=False"
    kernel = f"fit linear(x: input[{len(used)}], y: output)\n  model <- least_squares(x, target=y{intercept})\n"
    kept = {names[k]: columns[names[k]] for k in used} | {"y": y}
    try:
        fit = _run(kernel, kept, {"x": [names[k] for k in used]}).fit
    except KernelError as problem:
        if problem.diagnostic.code != "E844":
            raise
        hint = "leave such variables out, or give penstock.train the option on_singular"
        raise Said(f"E844: {problem.diagnostic.message}", hint) from problem
    assert fit is not None
    order = used if constant is None else [constant, *used]
    scale = np.ones(len(names))
    if constant is not None:
        scale[constant] = x[0, constant]
    figures = {}
    for name, values in (
        ("coef", fit.coef),
        ("std_err", fit.std_err),
        ("t_stats", fit.t),
        ("p_values", fit.p),
    ):
        figures[name] = np.full(len(names), np.nan)
        figures[name][order] = values
    figures["coef"] /= scale
    figures["std_err"] /= abs(scale)
    freedom = len(y) - len(names)
    covariance = np.full(2 * (len(names),), np.nan)
    if freedom > 0:
        covariance = _spread(x, used, constant) * (fit.rss / freedom)
        covariance /= np.outer(scale, scale)
    row = {**figures, "r2": fit.r2, "condition_no": fit.condition**2, "num_rows_processed": len(y),
           "num_missing_rows_skipped": skipped, "variance_covariance": covariance}  # fmt: skip
    return [row], {}


def _triangle(x: _Array) -> _Array:
    """Return R with RᵀR = XᵀX / rows. Raises Said for columns that depend on each other."""
    size = np.linalg.norm(x, axis=0)
    upper = np.linalg.qr(x / np.where(size, size, 1), mode="r")
    left = np.abs(np.diag(upper)) if len(upper) == x.shape[1] else np.zeros(1)
    if (left <= len(x) * np.finfo(float).eps).any():
        at = int(np.argmin(left)) + 1
        raise Said(
            f"the rows do not determine all coefficients: x[{at}] depends on the variables before it",
            "leave it out, or give more rows",
        )
    triangle: _Array = upper * size / np.sqrt(len(x))
    return triangle


def _inverse(x: _Array) -> tuple[_Array, float]:
    """Return A with A Aᵀ the inverse of XᵀX, and the condition number of XᵀX."""
    triangle = _triangle(x) * np.sqrt(len(x))
    return np.linalg.inv(triangle), float(np.linalg.cond(triangle)) ** 2


def _spread(x: _Array, used: list[int], constant: int | None) -> _Array:
    """Return the inverse of XᵀX, a 1 in place of the constant column; NaN where float64 does not tell its columns apart."""
    wide = x[:, used].astype(np.longdouble)
    first = wide[0] if constant is not None else 0 * wide[0]  # sums of large numbers lose digits
    beyond = (wide - first).mean(axis=0) if constant is not None else first
    means = first + beyond
    try:
        inverse, _ = _inverse((wide - first - beyond).astype(np.float64))
    except Said:
        return np.full(2 * (x.shape[1],), np.nan)
    matrix, of = np.zeros(2 * (x.shape[1],)), inverse @ inverse.T
    matrix[np.ix_(used, used)] = of
    if constant is not None:
        along = -(means @ of).astype(np.float64)
        matrix[constant, used] = matrix[used, constant] = along
        matrix[constant, constant] = 1 / len(x) - float(along @ means)
    return matrix


def _finite(values: _Array, of: str = "") -> _Array:
    """Return variables, or with its name a label, as float64. Raises Said for one that is not finite."""
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        row, *column = np.argwhere(~np.isfinite(array))[0] + 1
        what = of or f"x[{column[0]}]"
        hint = "train on a view without such rows: WHERE abs(x) < 'infinity'"
        raise Said(f"row {row:,}, {what} is not finite", hint)
    return array


def in_sql(hint: str, method: str) -> str:
    """Return a hint with options as the function `train` takes them, not as the command line does."""
    if "--" not in hint:
        return hint
    names = {"set": "metas", "dim": "dims"}
    hint = re.sub(
        r"--(set|dim) (\w+)=([\w.-]+)", lambda m: f'{{"{names[m[1]]}": {{"{m[2]}": {m[3]}}}}}', hint
    )
    hint = re.sub(r"--(on-\w+) (\w+)", lambda m: f'{{"{m[1].replace("-", "_")}": "{m[2]}"}}', hint)
    hint = re.sub(r"--([a-z-]+)", lambda m: names.get(m[1], m[1]).replace("-", "_"), hint)
    return hint if method == "train" else f"with options of penstock.train: {hint}"


def _steps(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how `_run` descends. Raises Said for an option that is no number it takes."""
    for name, value in options.items():
        try:
            number = float(value)
        except OverflowError:
            number = np.inf
        is_count = name == "max_iter"
        if not (is_count <= number < np.inf) or (is_count and not number.is_integer()):
            raise Said(
                f"{name} is {value}",
                f"give a {'whole number, 1' if is_count else 'number, 0'} or more",
            )
    epochs = min(int(options["max_iter"]), 2**31 - 1)
    return {"epochs": epochs, "metas": {"tolerance": options["tolerance"]}}


def logregr(x: _Array, y: _Array, skipped: int, options: Mapping[str, Any]) -> _Found:
    """Logistic regression, over variables that are made orthogonal first."""
    from scipy.special import expit
    from scipy.stats import norm

    steps = _steps(options)
    x, label = _finite(x), (y == "true").astype(np.float64)
    triangle = _triangle(x)
    columns = {"x": np.linalg.solve(triangle.T, x.T).T, "y": label}
    run = _run(_LOGISTIC, columns, {}, **steps)
    assert run.result is not None
    coef = np.linalg.solve(triangle, run.result["w"])
    score = x @ coef
    p = expit(score)
    try:
        inverse, condition = _inverse(x * np.sqrt(p * (1 - p))[:, None])
        std_err = np.linalg.norm(inverse, axis=1)
    except Said:  # classes that a plane separates
        inverse, condition = np.full(2 * (len(coef),), np.nan), np.inf
        std_err = np.full(len(coef), np.nan)
    z = coef / std_err
    with np.errstate(over="ignore"):
        odds = np.exp(coef)
    loss = np.logaddexp(0, np.where(label > 0, -score, score)).sum()
    row = {"coef": coef, "log_likelihood": -loss, "std_err": std_err, "z_stats": z, "p_values": 2 * norm.sf(np.abs(z)), "odds_ratios": odds,
           "condition_no": condition, "num_rows_processed": len(y), "num_missing_rows_skipped": skipped, "num_iterations": run.epochs,
           "variance_covariance": inverse @ inverse.T}  # fmt: skip
    optimizer = f"optimizer=igd, max_iter={options['max_iter']}, tolerance={options['tolerance']}"
    return [row], {"optimizer_params": optimizer}


def svm(x: _Array, y: _Array, skipped: int, options: Mapping[str, Any]) -> _Found:
    """The linear support vector machine: least of λ/2 |w|² and the mean hinge loss, over variables that are made orthogonal first."""
    steps = _steps(options)
    x, classes = _finite(x), sorted(set(y.tolist()))
    if len(classes) != 2:
        raise Said(
            f"the dependent variable has {len(classes)} values, not two",
            "write a condition, such as y = 1",
        )
    label, penalty = np.where(y == classes[1], 1.0, -1.0), float(options["lambda"])
    ridge = np.sqrt(len(x) * (_WIDTH * penalty + 1e-12 * (x**2).mean())) * np.eye(x.shape[1])
    inverse = np.linalg.inv(np.linalg.qr(np.vstack([x, ridge]) / np.sqrt(len(x)), mode="r"))
    matrix = penalty * inverse.T @ inverse
    listed = ", ".join(f"[{', '.join(repr(v) for v in row)}]" for row in matrix.tolist())
    kernel = _SVM.replace("PENALTY", f"[{listed}]")
    run = _run(kernel, {"x": x @ inverse, "y": label}, {}, **steps)
    assert run.result is not None
    coef = inverse @ run.result["w"]
    margin = label * (x @ coef)
    loss = penalty / 2 * coef @ coef + np.maximum(0, 1 - margin).mean()
    gradient = penalty * coef - ((margin < 1) * label) @ x / len(x)
    row = {"coef": coef, "num_rows_processed": len(y), "num_rows_skipped": skipped, "num_iterations": run.epochs, "loss": loss,
           "norm_of_gradient": np.linalg.norm(gradient), "__dep_var_mapping": classes}  # fmt: skip
    params = {
        "kernel_func": "linear",
        "kernel_parameters": "",
        "optim_params": f"max_iter={options['max_iter']}, tolerance={options['tolerance']}",
    }
    return [row], {**params, "reg_params": f"lambda={penalty:g}, norm=L2"}


def train(x: _Array, y: _Array, skipped: int, request: Mapping[str, Any]) -> _Found:
    """A kernel of the caller's own, with one input."""
    options, text = request["options"], request["kernel"]
    if not text:
        raise Said("the kernel is NULL or empty", "it is a text, such as docs/howto/sql.md has")
    if not isinstance(options, dict):
        raise Said("the options are no JSON object", """write them as '{"epochs": 10}'""")
    if unknown := next((name for name in options if name not in _OPTIONS), None):
        raise Said(f"there is no option {unknown}", f"options are {', '.join(_OPTIONS)}")
    target, fmt = options.get("target", _TARGET), options.get("format", "float32")
    if not (isinstance(target, str) and re.fullmatch(r"[a-z0-9.-]+(?<!\.toml)", target)):
        raise Said(
            f"there is no target {target}", "write the name of one that penstock targets lists"
        )
    if not isinstance(fmt, str):
        raise Said(
            f"there is no format {fmt}",
            "write float32, bfloat16, float16, or one such as fixed:8,24",
        )
    kernel = from_text(text, "kernel")
    inputs, outputs = (
        [p for p in kernel.parameters if p.kind == kind] for kind in ("input", "output")
    )
    if len(inputs) != 1 or len(outputs) > 1:
        raise _several(kernel, inputs, outputs, text)
    if outputs and not request.get("labelled", True):  # functions of before do not say it
        hint = f"give an expression for {outputs[0].name}, or a kernel without an output"
        raise Said("the dependent variable is NULL, and the kernel has an output", hint)
    columns, names = _columns(x, y)
    if not outputs:
        columns.pop("y")
    binding = {inputs[0].name: names, **({outputs[0].name: "y"} if outputs else {})}
    run = _run(text, columns, binding, **options)
    assert run.result is not None
    named = {} if run.design is None else run.design.names
    rows = []
    for model, values in run.result.items():
        called = np.asarray(named.get(model, np.full(np.shape(values), None)), object)
        for place, value in np.ndenumerate(np.asarray(values, np.float64)):
            name = called[place] if called.shape == np.shape(values) else None
            rows.append(
                {"model": model, "place": [k + 1 for k in place], "name": name, "value": value}
            )
    used = len(y) if run.rows_used is None else run.rows_used
    summary = {
        "kernel": text,
        "options": options,
        "num_iterations": run.epochs,
        "converged": run.converged,
        "num_rows_processed": used,
    }
    return rows, summary


def _several(kernel: Any, inputs: list[Any], outputs: list[Any], text: str) -> KernelError:
    surplus = (inputs[1:] or outputs[1:] or [kernel])[0]
    span = getattr(surplus, "span", None) or Span.whole("kernel")
    message = f"{len(inputs)} inputs and {len(outputs)} outputs: SQL gives one array and at most one label"
    return error(
        "E454",
        message,
        span,
        hint="make one vector of the inputs, such as x: input[d]",
        source=text,
    )
