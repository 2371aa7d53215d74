"""The Python front end: decorators, the annotations of parameters, and tracing.

The function runs once for every graph, on `Tensor`s instead of numbers. Whatever Python itself does with numbers and arrays
of its own happens then and ends up as constants.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, Self

from ..dialect import OPTIONS, Dialect
from . import functions, places
from .builder import GraphBuilder
from .constants import kind_of
from .diagnostics import KernelError, Span, error
from .header import misplaced, untyped
from .kernel import AnyKernel, Parameter
from .places import caller_span, node_span
from .tensor import Tensor, current


@dataclass(frozen=True)
class Annotation:
    """What stands behind a parameter's colon: `Input["d"]`, `Model["n", 5]`, `Output`, `Meta`."""

    kind: str
    dims: tuple[Any, ...] = ()

    def __getitem__(self, dims: Any) -> Annotation:
        return Annotation(self.kind, dims if isinstance(dims, tuple) else (dims,))

    def __call__(self, *dims: Any, **_: Any) -> Any:
        name = self.kind.capitalize()
        shown = ", ".join(map(repr, dims)) or '"d"'
        raise error(
            "E401",
            f"{name} is not a function",
            caller_span(),
            hint=f"dimensions stand in brackets: ps.{name}[{shown}]",
        )


#: for what the Python code of a kernel's function may raise, what to do
_RAISED_HINTS: dict[type[BaseException], str] = {
    SystemExit: "a kernel's function returns the models' new values: leave the call out",
    KeyboardInterrupt: "a kernel's function returns the models' new values: leave the raise out",
    ZeroDivisionError: "this is a division of Python's own numbers: divide by another one",
    OverflowError: "this is a calculation with Python's own numbers: use smaller ones",
    AssertionError: "this does not hold for the kernel's own constants; values of the table cannot be asserted",
    ImportError: "install the module where penstock is, and import it at the top of the file",
    OSError: "a kernel's function runs for every graph that is made: read files outside it",
    MemoryError: "use smaller constants, or fewer of them",
}
_RAISED_HINT = "the function runs once with values that stand for the table's: mend this expression, or compute it outside the kernel"


def _named(module: str, path: str) -> Any:
    """What a module calls so. Raises as Python does for a function that was pickled."""
    return attrgetter(path)(import_module(module))


def _remade(kind: type[Traced], function: bytes, state: dict[str, Any]) -> Traced:
    """A kernel as it was pickled."""
    kernel = object.__new__(kind)
    body = pickle.loads(function)
    body.__code__ = _written_in(state["file"], body.__code__)
    vars(kernel).update(state, function=body)
    return kernel


def _written_in(file: str, code: CodeType) -> CodeType:
    """Code that tells its file again, which pickling forgets, so that diagnostics find their lines."""
    constants = tuple(
        _written_in(file, one) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    return code.replace(co_filename=file, co_consts=constants)


@dataclass
class Traced(AnyKernel):
    """A kernel, of whatever dialect, whose body is a Python function."""

    function: Callable[..., Any] = field(default=lambda: None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        self.__doc__ = self.function.__doc__
        self.__module__ = self.function.__module__

    def __reduce__(self) -> tuple[Any, ...]:
        """A kernel pickles as its name where its module has it; else with its function by value:
        the module of a script, run again for its kernel, would do all else that it does."""
        function = self.function
        module, path = function.__module__, function.__qualname__
        with suppress(ImportError, AttributeError):
            if module != "__main__" and _named(module, path) is self:
                return _named, (module, path)
        import cloudpickle

        state = {name: value for name, value in vars(self).items() if name != "function"}
        return _remade, (type(self), cloudpickle.dumps(function), state)

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def set_options(self, options: Mapping[str, Any], written: Mapping[str, ast.expr]) -> None:
        """Set the decorator's options; `written` is what stands behind them in the file, by name. Raises KernelError."""
        for name, value in options.items():
            if value is not None:
                self.set_option(name, value, self.place(written.get(name)))

    def place(self, node: ast.expr | None) -> Span:
        """The place of an expression of the kernel's file; that of the kernel's name where there is none."""
        return self.name_span if node is None else node_span(self.file, node)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise error(
            "E214",
            f"the kernel {self.name} cannot be called like a function",
            caller_span(),
            hint="compile it with ps.compile; put what two kernels share into a plain function",
        )

    def run(self, builder: GraphBuilder) -> Any:
        """Call the function with the builder's variables; return what it returns. Raises KernelError for whatever it raises."""
        values = {name: Tensor(builder, ref) for name, ref in builder.variables.items()}
        token = current.set(builder)
        try:
            return self.function(**values)
        except KernelError as problem:
            if problem.source is not None and problem.diagnostic.span.file != self.file:
                problem.source = None  # the place is in a helper's file
            raise
        except BaseException as problem:
            if places.interrupted(problem) or places.defect(problem):
                raise
            raise self._python_error(builder, problem) from problem
        finally:
            current.reset(token)

    def _python_error(self, builder: GraphBuilder, problem: BaseException) -> KernelError:
        """The diagnostic for an exception that the kernel's own code raised."""
        span = places.traceback_span(problem.__traceback__, self.name_span)
        builder.source = None if span.file != self.file else builder.source
        if isinstance(problem, NameError):
            name = problem.name or [*str(problem).split("'"), ""][1]
            if isinstance(problem, UnboundLocalError):
                hint = "give it a value on every way to this line; a name that gets one anywhere in the function is the function's own"
                return builder.error("E201", f"the name {name} has no value here", span, hint=hint)
            if name in sys.stdlib_module_names or name in ("np", "numpy", "ps"):
                what = {"np": "numpy as np", "ps": "penstock as ps"}.get(name, name)
                hint = f"write `import {what}` at the top of the file"
                return builder.error("E201", f"the name {name} is not defined", span, hint=hint)
            if places.called_name(span):
                return functions.unknown_function(builder, name, span)
            return functions.unknown_name(builder, name, builder.variables, span)
        if (
            isinstance(problem, AttributeError)
            and getattr(problem.obj, "__name__", None) == "penstock"
        ):
            return functions.unknown_function(builder, str(problem.name), span)
        if isinstance(problem, RecursionError):
            return builder.error(
                "E107",
                "the kernel's Python code calls itself too deeply",
                span,
                hint="recursion must end while the kernel is traced",
            )
        shown = places.described(problem)
        hint = next(
            (hint for kind, hint in _RAISED_HINTS.items() if isinstance(problem, kind)),
            _RAISED_HINT,
        )
        message = f"the kernel's Python code raised {shown}"
        return builder.error("E109", message, span, hint=builder.sizes_wanted + hint)

    def plain(self, builder: GraphBuilder, value: Any, span: Span) -> Any:
        """Return what the builder takes for a value that the function returned. Raises KernelError (E214)."""
        if not isinstance(value, Tensor):
            return value
        if value._builder is not builder:
            message = "this value belongs to another kernel, or to an earlier trace of this one"
            hint = "values live only inside the kernel's function: do not keep them in globals"
            raise builder.error("E214", message, span, hint=hint)
        return value._ref

    def returned(self, builder: GraphBuilder) -> list[tuple[Any, Span]]:
        """Call the function as `run` does; return what the builder takes for each value that it returned, with its place. Raises KernelError."""
        result = self.run(builder)
        if result is None:
            return []
        values = list(result) if isinstance(result, (tuple, list)) and result else [result]
        spans = self.return_spans(len(values)) or [self.name_span] * len(values)
        return [(self.plain(builder, v, s), s) for v, s in zip(values, spans, strict=True)]

    def return_spans(self, count: int) -> list[Span]:
        """The places of the returned values, where the function has one return statement."""
        node = (
            places.function_node(self.function.__code__)
            if isinstance(self.function, FunctionType)
            else None
        )
        if node is None:
            return []
        returns = [n for n in _own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
        if len(returns) != 1 or returns[0].value is None:
            return []
        value = returns[0].value
        parts = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == count
            else [value]
            if count == 1
            else [value] * count
        )
        return [node_span(self.file, part) for part in parts]


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function without those of functions defined inside it."""
    out: list[ast.AST] = []
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        out.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)
    return out


def decorator(dialect: Dialect) -> Callable[..., Any]:
    """Return the decorator that makes a function a kernel of the dialect: `@ps.KEYWORD` or `@ps.KEYWORD(option=...)`."""

    declared = dialect.options
    assert declared is not None

    def decorate(function: Any = None, /, **options: Any) -> Any:
        known, words = inspect.signature(declared).parameters, dialect.words
        for name in options:
            if name in known:
                continue
            if name in OPTIONS and name not in dialect.statements:
                message = f"{words.one} has no {name}"
                raise error("E453", message, caller_span(), hint=words.no_statement)
            message = f"{dialect.keyword} has no argument {name}"
            hint = words.gone.get(name, f"usage: {words.usage}")
            raise error("E203", message, caller_span(), hint=hint)
        if function is not None:
            return _make(dialect, function, options)
        return lambda decorated: _make(dialect, decorated, options)

    decorate.__name__ = decorate.__qualname__ = dialect.keyword
    decorate.__doc__ = declared.__doc__
    return decorate


def _make(dialect: Dialect, function: Any, options: dict[str, Any]) -> Any:
    kernel, node = _declared(dialect, function)
    kernel.check_header()
    parameters = inspect.signature(kernel.function).parameters.values()
    for parameter, written in zip(kernel.parameters, parameters, strict=True):
        if written.default is not written.empty:
            kernel.set_default(parameter, written.default, parameter.span)
    kernel.set_options(options, _written_options(node))
    return kernel


def _declared(
    dialect: Dialect, function: Any
) -> tuple[Traced, ast.FunctionDef | ast.AsyncFunctionDef | None]:
    """Return the kernel that a function declares, with its parameters, and the function's syntax tree. Raises KernelError."""
    what = None
    if not isinstance(function, FunctionType):
        what = (
            f"the class {function.__name__}"
            if inspect.isclass(function)
            else "a kernel"
            if isinstance(function, AnyKernel)
            else kind_of(function)
        )
    elif function.__name__ == "<lambda>":
        what = "a lambda"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        what = "an async function"
    elif inspect.isgeneratorfunction(function):
        what = "a function with yield"
    if what is not None or not isinstance(function, FunctionType):
        raise error(
            "E405",
            f"a kernel is made from a function, not from {what}",
            caller_span(),
            hint=f"write `@ps.{dialect.keyword}` above a plain `def` that returns {dialect.words.returns}",
        )
    code = function.__code__
    node = places.function_node(code)
    file = code.co_filename
    source = "".join(linecache.getlines(file)) or None
    assert dialect.python is not None
    kernel: Traced = dialect.python(
        function.__name__, file, source, [], places.name_span(code, node), function=function
    )
    arguments = (
        {
            a.arg: a
            for a in [
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
                node.args.vararg,
                node.args.kwarg,
            ]
            if a
        }
        if node
        else {}
    )
    for name, parameter in inspect.signature(function).parameters.items():
        span = node_span(file, arguments[name]) if name in arguments else kernel.name_span
        kernel.parameters.append(_parameter(kernel, function, parameter, span))
    return kernel, node


def _parameter(
    kernel: Traced, function: FunctionType, parameter: inspect.Parameter, span: Span
) -> Parameter:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise kernel.error(
            "E402",
            f"a kernel cannot take {stars}{parameter.name}: its parameters are fixed",
            span,
            hint="name each input, output, model and meta",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise kernel.error(
            "E402",
            f"the parameter {parameter.name} stands before a /; a kernel's parameters go by name",
            span,
            hint="leave out the /",
        )
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(kernel, function, parameter.name, annotation, span)
    if not isinstance(annotation, Annotation):
        if annotation is inspect.Parameter.empty:
            raise untyped(kernel.dialect, parameter.name, None, span, kernel.source)
        shown = getattr(annotation, "__name__", None) or repr(annotation)
        raise untyped(kernel.dialect, parameter.name, shown, span, kernel.source)
    if annotation.kind not in kernel.dialect.kinds:
        raise misplaced(kernel.dialect, parameter.name, annotation.kind, span, kernel.source)
    return Parameter(parameter.name, annotation.kind, annotation.dims, span)


def _evaluated(kernel: Traced, function: FunctionType, name: str, text: str, span: Span) -> Any:
    """An annotation that `from __future__ import annotations` left as text."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        return eval(
            text, function.__globals__, {variable: cell.cell_contents for variable, cell in cells}
        )
    except Exception:
        raise untyped(kernel.dialect, name, text, span, kernel.source) from None


def _written_options(node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> dict[str, ast.expr]:
    """Return what stands behind the options of a function's decorators, by name."""
    values: dict[str, ast.expr] = {}
    for decorator in node.decorator_list if node else ():
        if isinstance(decorator, ast.Call):
            values.update(
                {keyword.arg: keyword.value for keyword in decorator.keywords if keyword.arg}
            )
    return values
