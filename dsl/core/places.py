"""Exact places in Python source: from running frames, from tracebacks, and from syntax trees."""

import ast
import dis
import linecache
import os
import re
import sys
import sysconfig
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from .diagnostics import Span

_HERE = str(Path(__file__).resolve().parents[1]) + os.sep
#: code of Python, of installed packages and of our own, wherever that is installed, is not the user's
_FOREIGN = tuple(
    {
        str(Path(path).resolve()) + os.sep
        for name, path in sysconfig.get_paths().items()
        if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
) + tuple(
    str(Path(path).resolve()) + os.sep for path in sys.modules[__name__.partition(".")[0]].__path__
)


@lru_cache(maxsize=256)
def _users(file: str) -> bool:
    """Whether code of that file was written by the user, as far as a path tells."""
    if file.startswith("<") and not linecache.getline(file, 1):
        return False  # Python's own, or what exec and eval were given: the call can be shown, its text cannot
    path = str(Path(file).resolve())
    return not path.startswith(_HERE) and not path.startswith(_FOREIGN)


_Positions = tuple[tuple[int | None, int | None, int | None, int | None], ...]
#: by the code's identity: its hash and its equality read all of the function, at every operation of it
_KNOWN: dict[int, tuple[CodeType, _Positions]] = {}


def _positions(code: CodeType) -> _Positions:
    known = _KNOWN.get(id(code))
    if known is None:
        if len(_KNOWN) == 256:
            _KNOWN.clear()
        known = _KNOWN[id(code)] = code, tuple(code.co_positions())
    return known[1]


def _characters(file: str, line: int, column: int) -> int:
    """The column from 1, in characters, of a column from 0 in UTF-8 bytes."""
    text = linecache.getline(file, line)
    return column + 1 if text.isascii() else len(text.encode()[:column].decode(errors="ignore")) + 1


def _code_span(code: CodeType, instruction: int, line: int | None) -> Span:
    file = code.co_filename
    positions = _positions(code)
    place = positions[instruction // 2] if 0 <= instruction // 2 < len(positions) else ()
    known = [number for number in place if number is not None]
    if len(known) < 4:
        return _line_span(file, line or code.co_firstlineno)
    (start, end), columns = known[:2], known[2:]
    return Span(
        file, start, _characters(file, start, columns[0]), end, _characters(file, end, columns[1])
    )


def _line_span(file: str, line: int) -> Span:
    text = linecache.getline(file, line).rstrip()
    return Span(file, line, len(text) - len(text.lstrip()) + 1, line, max(len(text), 1) + 1)


def caller_span() -> Span:
    """Return the place of the expression that the user's innermost frame is evaluating."""
    frame: FrameType | None = sys._getframe(1)
    first = None
    while frame is not None:
        if _users(frame.f_code.co_filename):
            return _code_span(frame.f_code, frame.f_lasti, frame.f_lineno)
        if first is None and not frame.f_code.co_filename.startswith(_HERE):
            first = frame
        frame = frame.f_back
    return (
        Span.whole("<kernel>")
        if first is None
        else _code_span(first.f_code, first.f_lasti, first.f_lineno)
    )


def traceback_span(traceback: TracebackType | None, fallback: Span) -> Span:
    """Return the place in the innermost of the user's frames of a traceback."""
    place = fallback
    while traceback is not None:
        if _users(traceback.tb_frame.f_code.co_filename):
            place = _code_span(traceback.tb_frame.f_code, traceback.tb_lasti, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def defect(problem: BaseException) -> bool:
    """Return whether an exception came out of this package's own code, not out of the user's.

    What asks for an attribute that a value lacks, calls itself without end or needs too much memory is the user's all the same.
    """
    if isinstance(problem, (AttributeError, RecursionError, MemoryError)):
        return False
    traceback, ours = problem.__traceback__, False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        ours = not _users(file) and (ours or str(Path(file).resolve()).startswith(_HERE))
        traceback = traceback.tb_next
    return ours


def described(problem: BaseException) -> str:
    """Return an exception as Python shows it; its name alone where its own code makes no text of it."""
    with suppress(Exception):
        return f"{type(problem).__name__}: {problem}".rstrip(": ")
    return type(problem).__name__


def interrupted(problem: BaseException) -> bool:
    """Return whether the user pressed Ctrl-C. A kernel may itself raise what Ctrl-C does: then its own code holds the `raise`."""
    if type(problem) is not KeyboardInterrupt:
        return False
    traceback = problem.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or not _users(traceback.tb_frame.f_code.co_filename):
        return True
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] != dis.opmap["RAISE_VARARGS"]


#: functions of Python that look at their arguments' truth
_DECIDING = ("max", "min", "any", "all", "bool", "sorted", "filter")

# -- syntax trees ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree(file: str) -> ast.Module | None:
    """Return the syntax tree of a file, None where its text is not at hand."""
    source = "".join(linecache.getlines(file))
    return _parse(source) if source else None


def function_node(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the definition that a function's code came from, None where the source is not at hand."""
    module = tree(code.co_filename)
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            if (
                min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                == code.co_firstlineno
            ):
                return node
    return None


def node_span(file: str, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
    """Return the place of a node of the file's syntax tree."""
    end_line = node.end_lineno or node.lineno
    end = node.end_col_offset if node.end_col_offset is not None else node.col_offset
    return Span(
        file,
        node.lineno,
        _characters(file, node.lineno, node.col_offset),
        end_line,
        _characters(file, end_line, end),
    )


def name_span(code: CodeType, node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> Span:
    """Return the place of the name behind `def`."""
    file = code.co_filename
    if node is None:
        return _line_span(file, code.co_firstlineno)
    text = linecache.getline(file, node.lineno)
    column = (
        text.find(
            node.name, text.find("def", _characters(file, node.lineno, node.col_offset) - 1) + 3
        )
        + 1
    )
    return (
        Span(file, node.lineno, column, node.lineno, column + len(node.name))
        if column
        else _line_span(file, node.lineno)
    )


def _contains(file: str, node: ast.expr, span: Span) -> bool:
    outer = node_span(file, node)
    begins = (outer.line, outer.column) <= (span.line, span.column)
    ends = (outer.end_line, outer.end_column)
    return begins and ends >= (span.end_line, span.end_column)


def decisive(span: Span) -> tuple[str, Span]:
    """Return what decides on the truth of the expression at the place (`if`, `while`, `and`, `a chained comparison`, …), and the
    place of what it decides on: Python itself may name the whole statement.
    """
    module = tree(span.file)
    decisions: list[tuple[int, int, str, Span]] = []
    for node in ast.walk(module) if module is not None else ():
        what, part = _decision(node)
        if part is None:
            continue
        place = node_span(span.file, part)
        matches = isinstance(node, (ast.stmt, ast.expr)) and node_span(span.file, node) == span
        if matches or _contains(span.file, part, span):
            # the smallest one is meant; where the whole statement was named, that is its condition
            exact = place if matches and part is not node else span
            decisions.append(
                (place.end_line - place.line, place.end_column - place.column, what, exact)
            )
    best = min(decisions, key=lambda entry: entry[:2], default=None)
    return ("Python", span) if best is None else best[2:]


def iterated(span: Span) -> Span:
    """Return the place of what is looped over or unpacked, where Python itself names the whole loop or the targets."""
    module = tree(span.file)
    for node in ast.walk(module) if module is not None else ():
        part: ast.expr | None = None
        if (
            isinstance(node, (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
            and node_span(span.file, node) == span
        ):
            part = node.iter if isinstance(node, ast.For) else node.generators[0].iter
        elif isinstance(node, ast.Assign) and any(
            node_span(span.file, target) == span for target in node.targets
        ):
            part = node.value
        if part is not None:
            return node_span(span.file, part)
    return span


def _decision(node: ast.AST) -> tuple[str, ast.expr | None]:
    if isinstance(node, (ast.If, ast.IfExp)):
        return "if", node.test
    if isinstance(node, ast.While):
        return "while", node.test
    if isinstance(node, ast.Assert):
        return "assert", node.test
    if isinstance(node, ast.BoolOp):
        return ("and" if isinstance(node.op, ast.And) else "or"), node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return "not", node
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return "a chained comparison", node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DECIDING:
        return node.func.id, node
    if isinstance(node, ast.comprehension) and node.ifs:
        return "if", node.ifs[0]
    return "", None


def names(span: Span, name: str) -> bool:
    """Return whether the place begins with the name; True where its text is not at hand."""
    text = linecache.getline(span.file, span.line)[span.column - 1 :]
    return not text or (
        text.startswith(name) and not text[len(name) : len(name) + 1].isidentifier()
    )


def says(span: Span, name: str) -> bool:
    """Return whether the place has a name of Python's own, of no other module; True where its text is not at hand."""
    lines = [linecache.getline(span.file, n) for n in range(span.line, span.end_line + 1)]
    if not lines[0]:
        return True
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    pattern = rf"(?<![\w.]){name}\b|__{name}__|builtins\.{name}"
    return re.search(pattern, "".join(lines)) is not None


def called_name(span: Span) -> bool:
    """Return whether the expression at the place is a name that is being called."""
    module = tree(span.file)
    for node in ast.walk(module) if module is not None else ():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, (ast.Name, ast.Attribute))
            and node_span(span.file, node.func) == span
        ):
            return True
    return False
