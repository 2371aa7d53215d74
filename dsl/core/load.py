"""Kernels from files: `file.py`, `file.py:name` and `file.psk`. Whatever is wrong with the file is a diagnostic."""

import ast
import builtins
import difflib
import linecache
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ...models.inputs import Input
from ...models.plugins import absent
from .. import dialect
from .diagnostics import KernelError, Span, error
from .hints import closest
from .kernel import AnyKernel
from .places import described, interrupted, traceback_span, tree
from .text import parse_kernel

#: bytes of a kernel's file
_LONGEST = 1 << 24


def from_text(source: str, filename: str = "<kernel>") -> Any:
    """Return the kernel, of whatever dialect, that a text in the syntax of `.psk` files describes (docs/reference/dsl.md).

    `filename` is what diagnostics call the text. Raises KernelError.
    """
    return parse_kernel(source, filename)


def load_kernel(where: str | Path) -> AnyKernel:
    """Return the kernel of a file.

    * `where`: `file.py`, `file.py:name` for a file with several kernels, or `file.psk`. A Python file is run,
      with its folder importable meanwhile.

    Raises KernelError: the file is missing, cannot be read or run, or does not hold the kernel.
    """
    path, name = _split(str(where))
    file = str(path)
    if path.suffix not in (".py", ".psk"):
        raise error(
            "E108",
            f"{file} is not a kernel: its suffix must be .py or .psk",
            Span.whole(file),
            hint=_other(path),
        )
    source = _read(path)
    if path.suffix == ".psk":
        kernel = from_text(source, file)
        if name is not None and name != kernel.name:
            raise error(
                "E104",
                f"there is no kernel {name} in {file}",
                kernel.name_span,
                hint=f"its kernel is {kernel.name}",
                source=source,
            )
        return kernel
    return _pick(_run(path, source), name, file, source)


def _split(where: str) -> tuple[Path, str | None]:
    for suffix in (".py:", ".psk:"):
        at = where.rfind(suffix)
        if at >= 0:
            end = at + len(suffix)
            return Path(where[: end - 1]), where[end:]
    return Path(where), None


def _read(path: Path) -> str:
    file = str(path)

    def refused(what: str, _: str) -> KernelError:
        hint = "who runs penstock must be allowed to read it; `ls -l` shows who is"
        readable = not path.is_file() or os.access(path, os.R_OK)
        return error("E102", what, Span.whole(file), hint=_other(path) if readable else hint)

    data = Input("a kernel", "", refused, _LONGEST).data(path)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        begin = data.rfind(b"\n", 0, problem.start) + 1
        column = len(data[begin : problem.start].decode("utf-8-sig", errors="replace")) + 1
        text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        raise error(
            "E103",
            f"{file} is not UTF-8: byte {problem.start} is 0x{data[problem.start]:02x}",
            Span(file, line, column, line, column + 1),
            hint="save the file as UTF-8",
            source=text,
        ) from None
    at = text.find("\0")
    if at >= 0:
        line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
        raise error(
            "E101",
            f"{file} is not text: it holds a NUL character",
            Span(file, line, column, line, column + 1),
            hint="is it the right file? If it is, save it as UTF-8, not as UTF-16",
            source=text,
        )
    return text


def _other(path: Path) -> str:
    """What the user may have meant instead of this path."""
    try:
        folder = path if path.is_dir() else path.parent
        names = sorted(
            entry.name
            for entry in folder.iterdir()
            if entry.suffix in (".py", ".psk") and entry.is_file()
        )
    except FileNotFoundError:
        return f"there is no folder {path.parent}"
    except (OSError, ValueError):
        return "name a file with a kernel in it, such as linear.py or linear.psk"
    stems = {Path(name).stem: name for name in names}
    close = difflib.get_close_matches(path.stem, stems, n=1)
    if close and folder is not path:
        return f"did you mean {folder / stems[close[0]]}?"
    if names and folder is path:
        return f"name a file in it, such as {folder / names[0]}"
    return "name a file with a kernel in it, such as linear.py or linear.psk; paths are taken from the current folder"


def _run(path: Path, source: str) -> ModuleType:
    """Run a Python file as a module of its own."""
    file = str(path)
    # diagnostics show the text that ran, not what the file holds later
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as problem:
        raise error(
            "E101",
            f"Python cannot read this: {problem.msg}",
            _syntax_span(problem, file),
            hint=_syntax_hint(problem.msg),
            source=source,
        ) from None
    except (RecursionError, MemoryError):
        raise error(
            "E107",
            f"{file} is nested too deeply for Python",
            _deepest(source, file),
            hint="split the long expression over several lines with names",
            source=source,
        ) from None
    module = ModuleType(path.stem)
    module.__file__ = file
    folder = str(path.resolve().parent)
    # dataclasses and pickles look their module up by name
    known = sys.modules.get(path.stem)
    if known is None:
        sys.modules[path.stem] = module
    sys.path.insert(0, folder)
    try:
        exec(code, module.__dict__)
    except KernelError:
        raise
    except BaseException as problem:
        if interrupted(problem):
            raise
        raise _failed(problem, file, source) from problem
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
        if known is None:
            sys.modules.pop(path.stem, None)
    return module


def _function(file: str, name: str | None = None) -> Span:
    """The place of a function that could have been meant as a kernel: the function of that name, else the last function, else the file's first line."""
    module = tree(file)
    definitions = [
        node for node in (module.body if module else ()) if isinstance(node, ast.FunctionDef)
    ]
    for node in reversed([node for node in definitions if node.name == name] or definitions):
        return Span(
            file,
            node.lineno,
            node.col_offset + 1,
            node.lineno,
            node.col_offset + 5 + len(node.name),
        )
    return Span(file, 1, 1, 1, 2)


def _syntax_span(problem: SyntaxError, file: str) -> Span:
    line = problem.lineno or 0
    column = max(problem.offset or 1, 1)
    end_line = problem.end_lineno or line
    end = problem.end_offset if problem.end_offset and problem.end_offset > 0 else column + 1
    if end_line == line:
        end = max(end, column + 1)
    return Span(file, line, column, end_line, end)


#: for what Python says of a text that it cannot read, what to do; the first that fits
_SYNTAX_HINTS = {
    "was never closed": "close it where the expression ends",
    "unmatched": "leave it out, or put in the bracket that it closes",
    "does not match opening": "close the inner bracket first",
    "triple-quoted": "put three quotes where the text ends",
    "unterminated": "put the closing quote behind the text, on the same line",
    "unexpected indent": "line it up with the lines above; only what belongs to a `def`, `for`, … stands further to the right",
    "unindent": "line it up with one of the blocks above",
    "expected an indented block": "indent the lines that belong to it by four spaces",
    "inconsistent use of tabs": "indent with spaces only",
    "invalid character": 'type it as the plain character of the keyboard: - for a minus, * for times, " for a quote',
    "invalid non-printable": "delete the invisible character and type the space anew",
    "expected ':'": "end the line with a colon",
    "outside async": "leave it out: a kernel is a plain function",
    "outside loop": "leave it out: a kernel needs no loops",
    "outside function": "indent it, so that it belongs to the kernel's `def`",
    "perhaps you forgot a comma": "put the comma in, or the operator, such as *",
    "cannot assign to": "on the left of = stands one name; compare with <, >, <= or >=",
    "too many nested parentheses": "give parts of the long expression names of their own",
    "maybe you meant '=='": "compare with <, >, <= or >=",
    "duplicate argument": "give one of them another name",
    "leading zeros": "leave the zeros in front out",
    "invalid decimal literal": "put the operator between number and name, such as *; write numbers like 1000 or 1e3",
    "positional argument follows": "arguments with names come last",
    "nonlocal": "leave it out: the values of a kernel live in its function",
    "starred expression": "leave the * out: a value of the kernel is one thing",
    "__future__": "put the import into the first line of the file",
    "too many statically nested blocks": "a kernel needs no nested loops: operations work on whole vectors",
}


def _syntax_hint(message: str | None) -> str:
    hints = (hint for words, hint in _SYNTAX_HINTS.items() if words in (message or "").lower())
    return next(
        hints,
        "look here and at the line above: a bracket, comma, colon or operator is missing, or there is one too many",
    )


def _deepest(source: str, file: str) -> Span:
    """The place of the innermost bracket, of the longest line where brackets are not what is nested."""
    depth = deepest = 0
    place = (1, 1)
    lines = source.split("\n")
    for number, line in enumerate(lines, 1):
        for column, character in enumerate(line, 1):
            depth += (character in "([{") - (character in ")]}")
            if depth > deepest:
                deepest, place = depth, (number, column)
    if deepest < 50:
        place = (max(range(len(lines)), key=lambda i: len(lines[i])) + 1, 1)
    return Span(file, *place, place[0], place[1] + 1)


#: for what Python code of a kernel's file may raise, what to do
_RUN_HINTS: dict[type[BaseException], str] = {
    SystemExit: 'a kernel\'s file is only loaded: put what a script does under `if __name__ == "__main__":`',
    KeyboardInterrupt: 'a kernel\'s file is only loaded: put what a script does under `if __name__ == "__main__":`',
    FileNotFoundError: "paths are taken from the current folder; Path(__file__).parent is the file's own",
    ImportError: "is the name spelt right? What stands in a file beside this one is imported without a dot",
    MemoryError: "a kernel's file needs no data: the table comes with --data",
}


def _failed(problem: BaseException, file: str, source: str) -> KernelError:
    span = traceback_span(problem.__traceback__, Span.whole(file))
    shown = described(problem)
    text = source if span.file == file else None
    if isinstance(problem, SyntaxError):  # in a module that the file imports
        hint = _syntax_hint(problem.msg)
        other = problem.filename or file
        if not other.startswith("<"):  # not the text that exec or eval was given
            span, text = _syntax_span(problem, other), None
        return error(
            "E101", f"Python cannot read this: {problem.msg}", span, hint=hint, source=text
        )
    if isinstance(problem, ModuleNotFoundError):
        hint = f"is it installed where penstock is (pip install), or a file {str(problem.name).partition('.')[0]}.py beside this one?"
        return error(
            "E106",
            f"running {file} failed: there is no module {problem.name}",
            span,
            hint=hint,
            source=text,
        )
    if isinstance(problem, AttributeError) and getattr(problem.obj, "__name__", None) == "penstock":
        known = dialect.names()
        listed = ", ".join((*known, *dialect.declared()))
        hint = (closest(str(problem.name), known) or f"it has {listed}") + absent()
        return error(
            "E202", f"penstock has nothing called {problem.name}", span, hint=hint, source=text
        )
    if isinstance(problem, RecursionError):
        hint = "recursion must end while the file is loaded"
        return error(
            "E107",
            f"running {file} failed: its code calls itself too deeply",
            span,
            hint=hint,
            source=text,
        )
    hint = next((hint for kind, hint in _RUN_HINTS.items() if isinstance(problem, kind)), "")
    if not hint and isinstance(problem, NameError):
        ours = dialect.names()
        hint = (
            f"write ps.{problem.name}, with `import penstock as ps` at the top"
            if problem.name in ours
            else ""
        )
        hint = (
            hint
            or closest(str(problem.name), dir(builtins))
            or f"define or import {problem.name} above this line"
        )
    hint = (
        hint
        or f"the file is run from top to bottom when it is loaded; `python {file}` shows the same error with all its calls"
    )
    return error("E106", f"running {file} failed: {shown}", span, hint=hint, source=text)


def _pick(module: ModuleType, name: str | None, file: str, source: str) -> AnyKernel:
    by_name = {key: value for key, value in vars(module).items() if isinstance(value, AnyKernel)}
    of_file = {key: value for key, value in by_name.items() if value.file == file}
    names = ", ".join(dict.fromkeys(of_file or by_name))
    if name == "":
        hint = f"write {file}:{next(iter(of_file or by_name), 'NAME')}, or leave the colon out"
        raise error(
            "E104", f"no kernel is named behind the colon of {file}:", Span.whole(file), hint=hint
        )
    if name is not None:
        named = by_name.get(name) or next(
            (kernel for kernel in of_file.values() if kernel.name == name), None
        )
        if named is None:
            raise error(
                "E104",
                f"there is no kernel {name} in {file}",
                next(iter(of_file.values())).name_span if of_file else _function(file, name),
                hint=f"its kernels are {names}"
                if names
                else f"write `@ps.kernel` above `def {name}(...)`",
                source=source,
            )
        return named
    kernels = list({id(kernel): kernel for kernel in (of_file or by_name).values()}.values())
    if not kernels:
        hint = "a kernel is a function with the decorator @ps.kernel"
        raise error(
            "E104", f"there is no kernel in {file}", _function(file), hint=hint, source=source
        )
    if len(kernels) > 1:
        raise error(
            "E105",
            f"{file} has {len(kernels)} kernels: {names}",
            kernels[1].name_span,
            (kernels[0].name_span, "the first one is here"),
            hint=f"say which, as in {file}:{kernels[0].name}",
        )
    return kernels[0]
