"""The text front end: kernels in files with the suffix `.psk`, and as strings.

Parsing is done by Lark (LALR, grammar.lark); the expressions are evaluated here without recursion, so that their depth has
no limit, through the same functions as those of the Python front end.
"""

from __future__ import annotations

import json
import operator as python_operator
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from ..dialect import OPTIONS, Dialect, dialects, find
from . import functions, hints
from .builder import MAX_OPERATIONS, GraphBuilder
from .diagnostics import Span, error
from .graph import Uniform
from .header import misplaced
from .kernel import AnyKernel, Parameter
from .syntax import syntax_error

#: a text with more words, signs and lines than this is refused before it is parsed: parsing takes some 40 µs for each
MAX_WORDS = 3 * MAX_OPERATIONS
_WORD = re.compile(r"""\#[^\n]*|"[^"\n]*"|'[^'\n]*'|\d[\w.]*|\w+|[^\w\s]|\n""")
#: functions of Python kernels that are statements in texts
_STATEMENTS = {"until": "until condition", "score": "score name = expression"}
_CONSTANTS = {"None": None, "True": True, "False": False}
_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "+": python_operator.add,
    "-": python_operator.sub,
    "*": python_operator.mul,
    "/": python_operator.truediv,
    "//": python_operator.floordiv,
    "%": python_operator.mod,
    "<": python_operator.lt,
    ">": python_operator.gt,
    "<=": python_operator.le,
    ">=": python_operator.ge,
    "==": python_operator.eq,
    "!=": python_operator.ne,
}


class Lines:
    """Drops the ends of lines inside brackets and of empty lines; remembers which brackets are open."""

    always_accept = ("_NL",)

    def __init__(self) -> None:
        self.open: list[Token] = []
        self.seen: list[Token] = []  #: the two latest tokens

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        self.open, self.seen = [], []
        wanted = False
        for token in stream:
            if token.type == "_NL":
                if self.open or not wanted:
                    continue
                wanted = False
            else:
                wanted = True
                if token.type in ("LPAR", "LSQB"):
                    self.open.append(token)
                elif (
                    self.open and token.type == {"LPAR": "RPAR", "LSQB": "RSQB"}[self.open[-1].type]
                ):
                    self.open.pop()
            self.seen = [*self.seen[-1:], token]
            yield token


@cache
def _parser() -> tuple[Lark, Lines]:
    lines = Lines()
    text = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    text += f"\nKEYWORD: {' | '.join(json.dumps(keyword) for keyword in dialects())}\n"
    parser = Lark(
        text,
        parser="lalr",
        propagate_positions=True,
        maybe_placeholders=False,
        postlex=lines,
        lexer_callbacks={"NAME": _normal},
    )
    return parser, lines


def _normal(token: Token) -> Token:
    """Names that look alike are one name, as in Python (its language reference, 2.3)."""
    return token.update(value=unicodedata.normalize("NFKC", token))


@dataclass(frozen=True)
class _Keyword:
    name: str
    value: Any


class _NoLiteral(Exception):
    """An expression stands where only a number, text, list or uniform(...) may."""


def parse_kernel(source: str, filename: str = "<kernel>") -> Written:
    """Return the kernel that the text describes. Raises KernelError."""
    _check_length(source, filename)
    parser, lines = _parser()
    try:
        tree: Any = parser.parse(source)
    except UnexpectedInput as problem:
        raise syntax_error(problem, lines.open, lines.seen, source, filename) from None
    if not tree.children:
        raise error(
            "E104",
            f"there is no kernel in {filename}",
            Span(filename, 1, 1, 1, 2),
            hint="a kernel begins with `kernel name(parameters)`",
            source=source,
        )
    declaration = tree.children[0]
    return _kernel(find(str(declaration.children[0])), declaration, source, filename)


def _check_length(source: str, filename: str) -> None:
    """Raise KernelError (E107) where the text is too long to be parsed."""
    beyond = next(islice(_WORD.finditer(source), MAX_WORDS, None), None)
    if beyond is not None:
        line = source.count("\n", 0, beyond.start()) + 1
        column = beyond.start() - source.rfind("\n", 0, beyond.start())
        raise error(
            "E107",
            f"the kernel has more than {MAX_WORDS} words, signs and lines",
            Span(filename, line, column, line, column + 1),
            hint="compute with whole vectors, as in sum(v); a kernel in Python takes long lists as NumPy arrays",
            source=source,
        )


@dataclass
class Written(AnyKernel):
    """A kernel, of whatever dialect, whose body is text."""

    statements: list[Any] = field(default_factory=list, repr=False, kw_only=True)

    def set_statements(self, options: list[Any]) -> None:
        """Run the statements `epochs`, `init` and `batch`, of those that the dialect has. Raises KernelError."""


def _kernel(dialect: Dialect, tree: Any, source: str, file: str) -> Written:
    """Return the kernel that a text declares."""
    name = tree.children[1]
    kernel: Written = dialect.text(str(name), file, source, [], span_of(file, name))
    defaults: list[tuple[Parameter, Any]] = []
    options: list[Any] = []
    for child in tree.children[2:]:
        if child.data == "parameter":
            parameter, default = _parameter(kernel, child)
            kernel.parameters.append(parameter)
            if default is not None:
                defaults.append((parameter, default))
        else:
            inner = child.children[0] if child.data == "statement" else child
            (options if inner.data in OPTIONS else kernel.statements).append(inner)
    kernel.check_header()
    for parameter, default in defaults:
        kernel.set_default(parameter, literal(kernel, default), parameter.span)
    for statement in [*options, *(other for other in kernel.statements if other.data == "until")]:
        if statement.data not in dialect.statements:
            message = f"{dialect.words.one} has no {statement.data}"
            raise kernel.error(
                "E453", message, span_of(file, statement), hint=dialect.words.no_statement
            )
    kernel.set_statements(options)
    return kernel


def _parameter(kernel: Written, tree: Any) -> tuple[Parameter, Any]:
    name, kind = tree.children[:2]
    span = span_of(kernel.file, tree)
    if kind not in kernel.dialect.kinds:
        raise misplaced(kernel.dialect, str(name), str(kind), span, kernel.source)
    dims: tuple[str | int, ...] = ()
    default = None
    for child in tree.children[2:]:
        if child.data == "dims":
            dims = tuple(_dim(dim) for dim in child.children)
        else:
            default = child
    return Parameter(str(name), str(kind), dims, span), default


def _dim(tree: Any) -> Any:
    token = tree.children[-1]
    if tree.data == "dim_name":
        return str(token).strip("'\"")
    value = _number(token)
    return -value if len(tree.children) > 1 and tree.children[0] == "-" else value


def _number(token: str) -> int | float:
    text = str(token)
    return int(text) if text.isdigit() and len(text) < 300 else float(text)


def span_of(file: str, item: Any) -> Span:
    """Return the place of a token or of a part of the syntax tree."""
    place = item.meta if isinstance(item, Tree) else item
    return Span(file, place.line, place.column, place.end_line, place.end_column)


def literal(kernel: Written, tree: Any) -> Any:
    """Return the value of a number, a text, a list of numbers or uniform(...). An expression gives an object that no check lets pass."""
    try:
        return _postorder(tree, lambda node, values: _literal_node(kernel, node, values))
    except _NoLiteral:
        return _Expression()


class _Expression:
    """Stands for an expression where a literal is needed; messages call it what it is."""

    is_kernel_value = True
    spoken = "an expression"


def _literal_node(kernel: Written, node: Any, values: list[Any]) -> Any:
    span = span_of(kernel.file, node)
    if node.data in ("number", "string", "group", "keyword"):
        return _simple(node, values)
    if node.data == "name" and node.children[0] in _CONSTANTS:
        return _CONSTANTS[node.children[0]]
    if node.data == "prefix" and isinstance(values[0], (int, float)):
        return -values[0] if node.children[0] == "-" else values[0]
    if node.data == "list":
        return values
    called = kernel.dialect.functions.get(str(node.children[0])) if node.data == "call" else None
    if called is not None and called.literal:
        plain, keywords = _arguments(kernel, values, span)
        return called.apply(
            kernel.source,
            span,
            **functions.bind_arguments(called, plain, keywords, span, kernel.source),
        )
    raise _NoLiteral


def _simple(node: Any, values: list[Any]) -> Any:
    if node.data == "number":
        return _number(node.children[0])
    if node.data == "string":
        return str(node.children[0])[1:-1]
    if node.data == "keyword":
        return _Keyword(str(node.children[0]), values[0])
    return values[0]


def _arguments(kernel: Written, values: list[Any], span: Span) -> tuple[list[Any], dict[str, Any]]:
    plain: list[Any] = []
    keywords: dict[str, Any] = {}
    for value in values:
        if isinstance(value, _Keyword):
            if value.name in keywords:
                raise kernel.error(
                    "E101",
                    f"the argument {value.name} is given twice",
                    span,
                    hint="leave one of them out",
                )
            keywords[value.name] = value.value
        elif keywords:
            raise kernel.error(
                "E101",
                "an argument without a name stands behind one with a name",
                span,
                hint="arguments with names come last",
            )
        else:
            plain.append(value)
    return plain, keywords


def _postorder(root: Any, visit: Callable[[Any, list[Any]], Any]) -> Any:
    """Call `visit(node, values of its children)` bottom up, from left to right, without recursion; return the root's value."""
    todo: list[tuple[Any, bool]] = [(root, False)]
    values: list[Any] = []
    while todo:
        node, ready = todo.pop()
        children = [child for child in node.children if isinstance(child, Tree)]
        if not ready and children:
            todo.append((node, True))
            todo += [(child, False) for child in reversed(children)]
            continue
        first = len(values) - len(children)
        values[first:] = [visit(node, values[first:])]
    return values[0]


class Body(ABC):
    """Runs the statements of a text kernel on a builder."""

    def __init__(self, kernel: Written, builder: GraphBuilder) -> None:
        self.kernel = kernel
        self.builder = builder
        self.values: dict[str, Any] = dict(builder.variables)
        self.defined: dict[str, Span] = {p.name: p.span for p in kernel.parameters}

    def run(self) -> None:
        """Run all statements. Raises KernelError at the first that is wrong."""
        for statement in self.kernel.statements:
            span = span_of(self.kernel.file, statement)
            if statement.data == "until":
                functions.call(
                    self.builder, "until", [self.evaluate(statement.children[0])], {}, span
                )
                continue
            if statement.data in ("named", "change"):
                (self.named if statement.data == "named" else self.change)(statement, span)
                continue
            name = statement.children[0]
            value = self.evaluate(statement.children[-1])
            if statement.data == "update":
                self.update(name, value, span_of(self.kernel.file, statement.children[-1]))
            else:
                self.assign(name, value)

    def named(self, statement: Any, span: Span) -> None:
        """Run `score NAME = expression`. Raises KernelError, for another first word as well."""
        word, name = statement.children[:2]
        if word != "score":
            raise self.builder.error(
                "E101",
                f"unexpected {name}",
                span_of(self.kernel.file, name),
                hint="a name is one word; only `score NAME = expression` has two",
            )
        value = self.evaluate(statement.children[-1])
        keywords = {"name": str(name)}
        self.assign(name, functions.call(self.builder, "score", [value], keywords, span))

    def change(self, statement: Any, span: Span) -> None:
        """Run `NAME[index] += expression` and its like. Raises KernelError (E212) where values cannot be changed so."""
        raise self.builder.error(
            "E212",
            "elements of a value cannot be assigned",
            span_of(self.kernel.file, statement.children[0]),
            hint=self.builder.elements_hint,
        )

    def assign(self, token: Token, value: Any) -> None:
        name, span = str(token), span_of(self.kernel.file, token)
        if name in _CONSTANTS:
            raise self.builder.error(
                "E101",
                f"{name} is a word of the language and cannot be given a value",
                span,
                hint="choose another name",
            )
        if name in self.defined:
            model = any(p.name == name for p in self.kernel.of_kind("model"))
            raise self.builder.error(
                "E204",
                f"{name} is defined twice",
                span,
                (self.defined[name], "first defined here"),
                hint=f"write `{name} <- ...` to give the model its new value"
                if model
                else "choose another name",
            )
        if isinstance(value, Uniform):
            raise self.builder.error(
                "E211",
                "uniform(...) is not a value of a kernel",
                span,
                hint=f"write `init {name} = uniform(...)` for a model's start",
            )
        self.defined[name] = span
        self.values[name] = value

    @abstractmethod
    def update(self, token: Token, value: Any, span: Span) -> None:
        """Run `NAME <- expression`, whose expression has this value and place. Raises KernelError."""

    def evaluate(self, tree: Any) -> Any:
        return _postorder(tree, self.visit)

    def visit(self, node: Any, values: list[Any]) -> Any:
        kind, builder, span = node.data, self.builder, span_of(self.kernel.file, node)
        if kind in ("number", "string", "group", "keyword"):
            return _simple(node, values)
        if kind == "list":
            return values
        if kind == "name":
            return self.name(str(node.children[0]), span)
        if kind == "element":
            return f"the text {values[0]!r}" if isinstance(values[0], str) else values[0]
        if kind in ("colon", "dots"):
            return ":" if kind == "colon" else "..."
        if kind == "call":
            return self.call(node, values, span)
        if kind == "indexed" and isinstance(values[0], tuple):
            return self.size(values[0], values[1:], span)
        if kind == "indexed":
            return functions.index(builder, values[0], values[1:], span)
        if kind in ("attribute", "method"):
            name = str(node.children[1])
            if kind == "attribute" and name == "T":
                return builder.transpose(values[0], span)
            if kind == "attribute" and name == "shape":
                return functions.shape(builder, values[0], span)
            raise functions.no_attribute(builder, name, span)
        if kind == "comparison" and len(values) > 2:
            raise functions.control_flow(builder, "a chained comparison", span)
        symbol = str(next(child for child in node.children if isinstance(child, Token)))
        return self.operator(symbol, values, span)

    def size(self, shape: tuple[int, ...], items: list[Any], span: Span) -> int:
        """Return one size of a shape. Raises KernelError (E208) where it has none there."""
        if len(items) != 1 or not isinstance(items[0], int):
            hint = "one whole number picks a size, as in v.shape[0]"
            raise self.builder.error("E208", "a shape is indexed by a number", span, hint=hint)
        if not -len(shape) <= items[0] < len(shape):
            many = functions.dimensions(len(shape))
            message = f"index {items[0]} of the shape of a value with {many}"
            hint = "sizes are counted from 0; a scalar has none"
            raise self.builder.error("E208", message, span, hint=hint)
        return shape[items[0]]

    def operator(self, symbol: str, values: list[Any], span: Span) -> Any:
        """Numbers among themselves stay numbers, as in Python: they may be a count or an exponent."""
        if all(isinstance(value, (bool, int, float)) for value in values):
            if len(values) == 1:
                return -values[0] if symbol == "-" else +values[0]
            try:
                if symbol in _FOLDED:
                    return _FOLDED[symbol](*values)
            except ZeroDivisionError:
                raise self.builder.error(
                    "E213", "a division by the constant 0", span, hint=hints.ZERO
                ) from None
        return functions.operator(self.builder, symbol, values, span)

    def name(self, name: str, span: Span) -> Any:
        if name in self.values:
            return self.values[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in self.builder.functions:
            raise self.builder.error(
                "E201",
                f"the name {name} is not defined",
                span,
                hint=f"{name} is a function: {self.builder.functions[name].usage}",
            )
        problem = functions.unknown_name(self.builder, name, self.values, span)
        if name in ("ps", "penstock", "np"):
            raise self.builder.error(
                "E201",
                problem.diagnostic.message,
                span,
                hint="as text, functions stand alone: sum(v), not ps.sum(v)",
            )
        raise problem

    def call(self, node: Any, values: list[Any], span: Span) -> Any:
        token = node.children[0]
        name = str(token)
        if name == "len" and len(values) == 1:
            return functions.length(self.builder, values[0], span)
        if name not in self.builder.functions:
            raise functions.unknown_function(self.builder, name, span_of(self.kernel.file, token))
        if name in _STATEMENTS:
            raise self.builder.error(
                "E101",
                f"{name} is a statement of its own",
                span,
                hint=f"write it on its own line: `{_STATEMENTS[name]}`",
            )
        plain, keywords = _arguments(self.kernel, values, span)
        return functions.call(self.builder, name, plain, keywords, span)
