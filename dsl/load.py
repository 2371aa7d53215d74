"""Kernels from files: `file.py`, `file.py:name` and `file.psk`. Whatever is wrong with the file is a diagnostic."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import ModuleType

from . import functions
from .diagnostics import KernelError, Span, error
from .kernel import Kernel
from .places import traceback_span

__all__ = ["load_kernel"]


def load_kernel(where: str | Path) -> Kernel:
    """Return the kernel of a file.

    Parameters
    ----------
    where: `file.py`, `file.py:name` for a file with several kernels, or `file.psk`. A Python file is run, with its folder
    importable meanwhile.

    Raises
    ------
    KernelError: the file is missing, cannot be read or run, or does not hold the kernel.
    """
    path, name = _split(str(where))
    file = str(path)
    if path.suffix not in (".py", ".psk"):
        raise error("E108", f"{file} is not a kernel: its suffix must be .py or .psk", Span.whole(file))
    source = _read(path)
    if path.suffix == ".psk":
        kernel = Kernel.from_text(source, file)
        if name is not None and name != kernel.name:
            raise error(
                "E104",
                f"there is no kernel {name} in {file}",
                kernel.name_span,
                hint=f"its kernel is {kernel.name}",
                source=source,
            )
        return kernel
    return _pick(_run(path, source), name, file)


def _split(where: str) -> tuple[Path, str | None]:
    for suffix in (".py:", ".psk:"):
        at = where.rfind(suffix)
        if at >= 0:
            end = at + len(suffix)
            return Path(where[: end - 1]), where[end:]
    return Path(where), None


def _read(path: Path) -> str:
    file = str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise error("E102", f"there is no file {file}", Span.whole(file)) from None
    except OSError as problem:
        raise error("E102", f"{file} cannot be read: {problem.strerror or problem}", Span.whole(file)) from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
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


def _run(path: Path, source: str) -> ModuleType:
    """Run a Python file as a module of its own."""
    file = str(path)
    # diagnostics show the text that ran, not what the file holds later
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    whole = Span.whole(file)
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as problem:
        raise error("E101", f"Python cannot read this: {problem.msg}", _syntax_span(problem, file), source=source) from None
    except ValueError as problem:
        raise error("E101", f"Python cannot read this: {problem}", whole, source=source) from None
    except (RecursionError, MemoryError):
        raise error(
            "E107",
            f"{file} is nested too deeply for Python",
            whole,
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
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        raise _failed(problem, file, source) from problem
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
        if known is None:
            sys.modules.pop(path.stem, None)
    return module


def _syntax_span(problem: SyntaxError, file: str) -> Span:
    line = problem.lineno or 0
    column = max(problem.offset or 1, 1)
    end_line = problem.end_lineno or line
    end = problem.end_offset if problem.end_offset and problem.end_offset > 0 else column + 1
    if end_line == line:
        end = max(end, column + 1)
    return Span(file, line, column, end_line, end)


def _failed(problem: BaseException, file: str, source: str) -> KernelError:
    span = traceback_span(problem.__traceback__, Span.whole(file))
    shown = f"{type(problem).__name__}: {problem}".rstrip(": ")
    text = source if span.file == file else None
    if isinstance(problem, SyntaxError):  # in a module that the file imports
        return error("E101", f"Python cannot read this: {problem.msg}", _syntax_span(problem, problem.filename or file))
    if isinstance(problem, ModuleNotFoundError):
        return error("E106", f"running {file} failed: there is no module {problem.name}", span, source=text)
    if isinstance(problem, AttributeError) and getattr(problem.obj, "__name__", None) == "penstock":
        hint = functions.closest(str(problem.name), ("kernel", "Input", "Output", "Model", "Meta", *functions.FUNCTIONS))
        return error("E202", f"penstock has nothing called {problem.name}", span, hint=hint, source=text)
    if isinstance(problem, RecursionError):
        return error("E107", f"running {file} failed: its code calls itself too deeply", span, source=text)
    return error("E106", f"running {file} failed: {shown}", span, source=text)


def _pick(module: ModuleType, name: str | None, file: str) -> Kernel:
    found = {key: value for key, value in vars(module).items() if isinstance(value, Kernel)}
    own = {key: value for key, value in found.items() if value.file == file}
    names = ", ".join(dict.fromkeys(own or found))
    if name is not None:
        named = found.get(name) or next((kernel for kernel in own.values() if kernel.name == name), None)
        if named is None:
            raise error(
                "E104",
                f"there is no kernel {name} in {file}",
                Span.whole(file),
                hint=f"its kernels are {names}" if names else "it has no kernel",
            )
        return named
    kernels = list({id(kernel): kernel for kernel in (own or found).values()}.values())
    if not kernels:
        raise error(
            "E104", f"there is no kernel in {file}", Span.whole(file), hint="a kernel is a function with the decorator @ps.kernel"
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
