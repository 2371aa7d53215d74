"""Scores as SQL: a SELECT whose float8 expression gives the scores of a table's rows, operation by operation as NumPy orders them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.dsl.core.diagnostics import Diagnostic, Span
from penstock.dsl.core.graph import Graph, Node, Region
from penstock.dsl.core.operations import apply
from penstock.engines.score import ScoreError, Scoring
from penstock.models.heap.schema import TYPES, Column

#: an expression with more terms is refused
MOST_TERMS = 10_000
#: exp of less is 0, and of more infinite: the server's function has an error there instead
_LEAST, _MOST = -708.0, 709.78
#: columns of one list, of which a server takes 1664
_COLUMNS = 1000

#: the server's NaN is equal to itself and greater than all numbers
_NAN = "{0} = 'NaN'::float8"
_EXP = f"CASE WHEN {_NAN} THEN {{0}} WHEN {{0}} < {_LEAST} THEN 0::float8 WHEN {{0}} > {_MOST} THEN 'Infinity'::float8 ELSE exp({{0}}) END"
_SMALL = f"CASE WHEN abs({{0}}) > {-_LEAST} THEN 0::float8 ELSE exp(-abs({{0}})) END"
#: by operation, its form; one that names an operand twice has it in a column
_FORMS = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "CASE WHEN {1} = 0 THEN CASE WHEN {0} = 0 THEN 'NaN'::float8 ELSE {0} * 'Infinity'::float8 END ELSE {0} / {1} END",
    "lt": "({0} < {1} AND {1} <> 'NaN')::int::float8",
    "gt": "({0} > {1} AND {0} <> 'NaN')::int::float8",
    "le": "({0} <= {1} AND {1} <> 'NaN')::int::float8",
    "ge": "({0} >= {1} AND {0} <> 'NaN')::int::float8",
    "neg": "(-{0})",
    "abs": "abs({0})",
    "exp": _EXP,
    "sigmoid": f"(CASE WHEN {_NAN} THEN {{0}} WHEN {{0}} >= 0 THEN 1 / (1 + {_SMALL}) ELSE {_SMALL} / (1 + {_SMALL}) END)",
    "gaussian": f"CASE WHEN {_NAN} THEN {{0}} WHEN abs({{0}}) > 26.6 THEN 0::float8 ELSE exp(-{{0}} * {{0}}) END",
    "sqrt": "CASE WHEN {0} < 0 THEN 'NaN'::float8 ELSE sqrt({0}) END",
    "log": "CASE WHEN {0} < 0 THEN 'NaN'::float8 WHEN {0} = 0 THEN '-Infinity'::float8 ELSE ln({0}) END",
    "tanh": "tanh({0})",
    "where": "CASE WHEN {0} <> 0 THEN {1} ELSE {2} END",
}
#: what may stand as often as it likes: a literal, or a column that has a value
_SHORT = re.compile(r"'[^']*'::float8|l\d+\.v\d+")
Texts = np.ndarray  # of SQL expressions, as objects


def literal(value: float) -> str:
    """Return a number as the shortest float8 literal that is it."""
    if not math.isfinite(value):
        word = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        return f"'{word}'::float8"
    return f"'{value!r}'::float8"


def quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def score_select(scoring: Scoring, table: str) -> str:
    """Return a SELECT of all columns of a table and of the score, NULL where a value that it uses is NULL.

    Parameters: `table`: as SQL has it. Raises ScoreError (E633) for more than `MOST_TERMS` terms, and for columns that are no numbers.
    """
    return _Select(scoring).text(table)


def _refused(message: str, hint: str) -> ScoreError:
    return ScoreError(Diagnostic("E633", message, Span.whole("view"), hint=hint))


class _Select:
    def __init__(self, scoring: Scoring) -> None:
        if scoring.groups is not None:
            message = (
                f"each {scoring.groups.column} has models of its own: there is no one expression"
            )
            raise _refused(message, "run.predict scores all groups")
        self.scoring, self.graph = scoring, scoring.kernel.graph
        self.uses = Counter(i for node in self.graph.nodes for i in node.inputs)
        self.laterals: list[list[str]] = []
        self.terms = self.columns = 0
        self.present: list[str] = []  # conditions

    def text(self, table: str) -> str:
        graph = self.graph
        values: list[Any] = []  # float64 arrays of what all rows share, texts of the rest
        with np.errstate(all="ignore"):
            for index, node in enumerate(graph.nodes):
                values.append(self._value(index, node, values))
        root = str(values[graph.returns[0]].item())
        present = " AND ".join(dict.fromkeys(self.present))
        parts = [f"{table} t"]
        for number, columns in enumerate(self.laterals):
            parts.append(f"LATERAL (SELECT {', '.join(columns)}) l{number}")
        score = f"CASE WHEN {present} THEN {root} END AS {quoted(self.scoring.name)}"
        return f"SELECT t.*, {score}\nFROM {' CROSS JOIN '.join(parts)}"

    def _value(self, index: int, node: Node, values: Sequence[Any]) -> Any:
        graph = self.graph
        if node.op == "const":
            return np.asarray(node.attrs["value"], np.float64)
        if node.op in ("model", "meta"):
            variable = graph.variables[node.attrs["name"]]
            number = variable.init if node.op == "model" else variable.value
            return np.asarray(number, np.float64)
        if node.op == "input":
            return self._input(graph, node)
        operands = [values[i] for i in node.inputs]
        if node.region is not Region.TUPLE:
            return apply(node.op, operands, node.attrs)
        operands = [v if v.dtype == object else _texts(v) for v in operands]
        texts = self._operation(node, operands)
        return self._kept(texts) if self.uses[index] > 1 else texts

    def _input(self, graph: Graph, node: Node) -> Texts:
        variable = graph.variables[node.attrs["name"]]
        columns = {c.name: c for c in self.scoring.schema.columns}
        texts: list[str] = []
        count = math.prod(variable.shape)
        names = self.scoring.columns[variable.name]
        for name in names:
            texts += self._column(columns[name], count if len(names) == 1 else 1)
        array = np.empty(count, object)
        array[:] = texts
        return self._kept(array.reshape(variable.shape))

    def _column(self, column: Column, count: int) -> list[str]:
        """Return the elements of a column as float8."""
        place = f"t.{quoted(column.name)}"
        if column.labels is not None or not column.is_numeric:
            hint = "score it with run.predict, or store the number in a column"
            raise _refused(f"the column {column.name} is no number at the server", hint)
        self.present.append(f"{place} IS NOT NULL")
        if not column.is_array:
            return [f"{place}::int::float8" if column.type == "bool" else f"{place}::float8"]
        self.present.append(f"array_position({place}, NULL) IS NULL")
        boolean = TYPES[column.type].element == "bool"
        cast = "::int::float8" if boolean else "::float8"
        return [f"{place}[{k + 1}]{cast}" for k in range(column.length or count)]

    # operations

    def _operation(self, node: Node, operands: list[Texts]) -> Texts:
        if node.op == "expand":
            return np.expand_dims(operands[0], node.attrs["axis"])
        if node.op == "transpose":
            return np.swapaxes(operands[0], -1, -2)
        if node.op == "outer":
            return self._each("mul", [operands[0][:, None], operands[1][None, :]])
        if node.op == "matmul":
            return self._matmul(*operands)
        if node.op in _FORMS:
            return self._each(node.op, operands)
        if node.op not in _REDUCED and node.op != "norm":
            raise _refused(f"the server has no form of {node.op}", "score in Python: run.predict")
        return self._reduced(node, operands[0])

    def _each(self, op: str, operands: Sequence[Texts]) -> Texts:
        form = _FORMS[op]
        named = [self._kept(v) if form.count(f"{{{k}}}") > 1 else v for k, v in enumerate(operands)]
        shape = np.broadcast_shapes(*(v.shape for v in named))
        self._count(math.prod(shape))
        flat = [np.broadcast_to(v, shape).ravel() for v in named]
        array = np.empty(math.prod(shape), object)
        array[:] = [form.format(*texts) for texts in zip(*flat, strict=True)]
        return array.reshape(shape)

    def _matmul(self, left: Texts, right: Texts) -> Texts:
        rows, columns = np.atleast_2d(left), right if right.ndim == 2 else right[:, None]
        shape = (*left.shape[:-1], *right.shape[1:])
        cells = [
            _summed(self._each("mul", [row, column]).tolist())
            for row in rows
            for column in columns.T
        ]
        array = np.empty(len(cells), object)
        array[:] = cells
        return array.reshape(shape)

    def _reduced(self, node: Node, value: Texts) -> Texts:
        axis = node.attrs.get("axis")
        lines = value.reshape(1, -1) if axis is None else np.moveaxis(value, axis, -1)
        shape, lines = lines.shape[:-1], lines.reshape(-1, lines.shape[-1])
        self._count(lines.size)
        if node.op == "norm":
            squares = self._each("mul", [self._kept(lines)] * 2)
            cells = [_FORMS["sqrt"].format(s) for s in self._kept(_row(squares, _summed)).tolist()]
        else:
            cells = [_REDUCED[node.op](line) for line in lines.tolist()]
        array = np.empty(len(cells), object)
        array[:] = cells
        return array.reshape(() if axis is None else shape)

    # columns

    def _kept(self, value: Texts) -> Texts:
        """Return texts that may stand several times: longer ones become columns of a LATERAL list."""
        flat = value.ravel().tolist()
        array = np.empty(len(flat), object)
        fresh: list[str] = []
        named: dict[str, str] = {}
        before = len(self.laterals)
        for place, text in enumerate(flat):
            if _SHORT.fullmatch(text):
                array[place] = text
                continue
            if text not in named:
                named[text] = f"l{before + len(fresh) // _COLUMNS}.v{self.columns}"
                fresh.append(f"{text} AS v{self.columns}")
                self.columns += 1
            array[place] = named[text]
        for first in range(0, len(fresh), _COLUMNS):
            self.laterals.append(fresh[first : first + _COLUMNS])
        return array.reshape(value.shape)

    def _count(self, terms: int) -> None:
        self.terms += terms
        if self.terms > MOST_TERMS:
            hint = "score the table with run.predict or penstock score"
            raise _refused(f"the score has more than {MOST_TERMS:,} terms", hint)


def _texts(value: np.ndarray) -> Texts:
    array = np.empty(value.size, object)
    array[:] = [literal(v) for v in value.ravel().tolist()]
    return array.reshape(value.shape)


def _row(lines: Texts, reduce: Callable[[list[str]], str]) -> Texts:
    array = np.empty(len(lines), object)
    array[:] = [reduce(line) for line in lines.tolist()]
    return array


def _summed(texts: list[str]) -> str:
    """Return a sum in the order of NumPy's (its `pairwise_sum`): eight partial sums of up to 128 numbers, halves of more."""
    count = len(texts)
    if count < 8:
        return _folded(texts, "+")
    if count <= 128:
        end = count - count % 8
        part = [_folded(texts[k:end:8], "+") for k in range(8)]
        pairs = [f"({part[k]} + {part[k + 1]})" for k in range(0, 8, 2)]
        total = f"(({pairs[0]} + {pairs[1]}) + ({pairs[2]} + {pairs[3]}))"
        return _folded([total, *texts[end:]], "+")
    half = count // 2 - count // 2 % 8
    return f"({_summed(texts[:half])} + {_summed(texts[half:])})"


def _folded(texts: Sequence[str], sign: str) -> str:
    """Return texts joined from left to right."""
    return f"({f' {sign} '.join(texts)})" if len(texts) > 1 else texts[0]


_REDUCED: Mapping[str, Callable[[list[str]], str]] = {
    "sum": _summed,
    "prod": lambda texts: _folded(texts, "*"),
    "max": lambda texts: f"GREATEST({', '.join(texts)})" if len(texts) > 1 else texts[0],
    "min": lambda texts: (
        f"(-GREATEST({', '.join(f'(-{t})' for t in texts)}))" if len(texts) > 1 else texts[0]
    ),
}
