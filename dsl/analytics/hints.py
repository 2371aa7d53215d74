"""What to do about new values and batches that do not fit: hints of diagnostics, with the names and sizes at hand."""

from ..core import dims as D

_ORDER = "elements keep their places in hardware: max(v), min(v) and sum(v <= t), which counts those up to t, need no order"
_COUNTS = (
    "sum((v >= c) * (v <= c)) counts the elements that are c; merge of such a flag counts tuples"
)
_CHOICE = "write where(a {} b, a, b)"
_LOG = "write log(v) * {}"
_COLUMN = (
    "make a column of it in the query; the operators and functions here are what hardware computes"
)
_CONSTANT = "a number stands for an array of any shape; NumPy's arrays and lists are constants"
_PARTS = "declare several parameters, or bind columns to one: --bind x=a,b"
_FORMAT = "the format of the design rounds; make whole numbers of a column in the query"
_RANDOM = "nothing is drawn while a kernel runs; uniform(low, high, seed=1) is a model's start"
_PRODUCT = "write a @ b, or sum(a * b)"
_ROWS = "rows of a model are changed as in `E.at[i].add(v)` (as text: `E[i] += v`)"
_SPREAD = "write m = mean(v, n) and mean(v * v, n) - m * m over a batch; sum(v) / len(v) is the mean of the elements"
_TRIANGLE = (
    "multiply by a triangle of ones: np.tri(4) @ v for 4 elements (as text a list of its rows)"
)
#: functions of NumPy and its like that kernels lack
INSTEAD: dict[str, str] = {
    **dict.fromkeys(
        ("sort", "argsort", "median", "percentile", "quantile", "topk", "rank"), _ORDER
    ),
    **dict.fromkeys(("unique", "bincount", "histogram", "value_counts"), _COUNTS),
    **dict.fromkeys(("cumsum", "cumulative_sum"), _TRIANGLE),
    "cumprod": "for positive values: exp(np.tri(4) @ log(v)) for 4 elements (as text a list of its rows)",
    "diff": "multiply by a matrix with rows such as [-1, 1, 0]",
    "maximum": _CHOICE.format(">"),
    "minimum": _CHOICE.format("<"),
    "clip": "write where(v < low, low, where(v > high, high, v))",
    "relu": "write where(v > 0, v, 0)",
    "sign": "write (v > 0) - (v < 0)",
    "softplus": "write log(1 + exp(v))",
    "square": "write v ** 2",
    **dict.fromkeys(("power", "pow"), "write v ** 2, or exp(b * log(v)) for positive v"),
    "log2": _LOG.format("1.4426950408889634"),
    "log10": _LOG.format("0.4342944819032518"),
    "log1p": "write log(1 + v)",
    "expm1": "write exp(v) - 1",
    "exp2": "write exp(v * 0.6931471805599453)",
    **dict.fromkeys(("dot", "vdot", "inner", "einsum", "tensordot", "matmul"), _PRODUCT),
    **dict.fromkeys(("var", "std", "average"), _SPREAD),
    "count_nonzero": "merge(1, n) counts tuples, sum(v > 0) elements",
    **dict.fromkeys(
        ("gather", "take", "embedding", "one_hot", "scatter", "scatter_add"),
        'rows of a model are read by an index, as in E[i], where `i: ps.Index["n"]` (as text: `i: index[n]`)',
    ),
    "add": f"write a + b; {_ROWS}",
    "subtract": f"write a - b; {_ROWS}",
    "set": _ROWS,
    "any": "write max(c) of conditions, which are 0 or 1",
    "all": "write min(c) of conditions, which are 0 or 1",
    "isnan": "write 1 - (v <= v): nothing holds for NaN",
    **dict.fromkeys(("round", "floor", "ceil", "trunc", "rint", "mod", "remainder"), _FORMAT),
    **dict.fromkeys(("sin", "cos", "tan", "arctan", "arcsin", "arccos"), _COLUMN),
    **dict.fromkeys(("concatenate", "concat", "stack", "hstack", "vstack"), _PARTS),
    **dict.fromkeys(
        ("reshape", "ravel", "flatten", "squeeze"),
        "declare the parameter with these dimensions; columns fill them row by row",
    ),
    **dict.fromkeys(("zeros", "ones", "full", "arange", "eye", "linspace"), _CONSTANT),
    **dict.fromkeys(("random", "rand", "randn", "normal", "dropout", "shuffle"), _RANDOM),
    "transpose": "write v.T",
    "at": "only a model has rows to change, as in `E.at[i].add(v)` (as text: a line `E[i] += v`)",
    "len": "write len(v), without ps",
}


def new_value(name: str, have: D.Shape, want: D.Shape) -> str:
    """How to bring a model's new value to the model's shape."""
    if len(have) == len(want) == 2 and have == want[::-1]:
        return "transpose it: (...).T"
    if not want:
        return "sum(...) makes a scalar of it; or declare the model with these dimensions"
    why = "; is there a sum or @ too many?" if len(have) < len(want) else ""
    return f"the new value needs the model's shape, as in `{name} - rate * g`, where g is {D.show(want)} too{why}"


def merges(one: int, other: int) -> str:
    """How to make two merges span the same batch."""
    calls = [f"merge(v, {count})" if count else "merge(v)" for count in (one, other)]
    return f"write {calls[0]} in both places, or {calls[1]}"
