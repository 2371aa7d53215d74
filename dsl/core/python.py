"""The Python front end: the decorator `kernel`, the annotations of its parameters, and tracing.

The function runs once for every graph, on `Tensor`s instead of numbers. Whatever Python itself does with numbers and arrays
of its own happens then and ends up as constants.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeVar, overload

from ..analytics.finish import Return
from ..analytics.kernel import KINDS, Kernel
from . import functions, places
from .builder import GraphBuilder
from .constants import kind_of
from .diagnostics import KernelError, Span, error
from .kernel import AnyKernel, Parameter
from .places import caller_span, node_span
from .tensor import Tensor, current

__all__ = ["Annotation", "Input", "Key", "Meta", "Model", "Output", "PythonKernel", "Traced", "declared", "defaults", "kernel", "misplaced", "untyped",
           "written_options"]

T = TypeVar("T", bound="Traced")


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
        raise error("E401", f"{name} is not a function", caller_span(), hint=f"dimensions stand in brackets: ps.{name}[{shown}]")


#: a tuple's features
Input = Annotation("input")
#: a tuple's label
Output = Annotation("output")
#: what is learned
Model = Annotation("model")
#: a number that stays the same during a run
Meta = Annotation("meta")
#: a learned index's key
Key = Annotation("key")


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


@dataclass
class Traced(AnyKernel):
    """A kernel, of whatever engine, whose body is a Python function."""

    function: Callable[..., Any] = field(default=lambda: None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        self.__doc__ = self.function.__doc__
        self.__module__ = self.function.__module__

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
            if places.interrupted(problem):
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
        if isinstance(problem, AttributeError) and getattr(problem.obj, "__name__", None) == "penstock":
            return functions.unknown_function(builder, str(problem.name), span)
        if isinstance(problem, RecursionError):
            return builder.error(
                "E107",
                "the kernel's Python code calls itself too deeply",
                span,
                hint="recursion must end while the kernel is traced",
            )
        shown = f"{type(problem).__name__}: {problem}".rstrip(": ")
        hint = next((hint for kind, hint in _RAISED_HINTS.items() if isinstance(problem, kind)), _RAISED_HINT)
        return builder.error("E109", f"the kernel's Python code raised {shown}", span, hint=hint)

    def return_spans(self, count: int) -> list[Span]:
        """The places of the returned values, where the function has one return statement."""
        node = places.function_node(self.function.__code__) if isinstance(self.function, FunctionType) else None
        if node is None:
            return []
        found = [n for n in _own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
        if len(found) != 1 or found[0].value is None:
            return []
        value = found[0].value
        parts = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == count
            else [value]
            if count == 1
            else [value] * count
        )
        return [node_span(self.file, part) for part in parts]


@dataclass
class PythonKernel(Traced, Kernel):
    """A kernel of the analytics engine whose body is a Python function."""

    def body(self, builder: GraphBuilder) -> list[Return]:
        return self._returns(builder, self.run(builder))

    def _returns(self, builder: GraphBuilder, result: Any) -> list[Return]:
        models = self.of_kind("model")
        if result is None:
            return []
        values = (
            list(result)
            if isinstance(result, (tuple, list)) and (len(models) != 1 or any(isinstance(v, Tensor) for v in result))
            else [result]
        )
        spans = self.return_spans(len(values))
        if len(values) != len(models):
            whole = spans[0] if spans else self.name_span
            if spans and len(spans) > 1:
                whole = Span(whole.file, whole.line, whole.column, spans[-1].end_line, spans[-1].end_column)
            raise builder.error(
                "E407",
                f"the kernel returns {_count(len(values), 'value')} for {_count(len(models), 'model')}",
                whole,
                hint=f"return the new value of {models[0].name} alone"
                if len(models) == 1
                else f"return the new values of {', '.join(m.name for m in models)}, in this order",
            )
        out = []
        for position, (model, value) in enumerate(zip(models, values, strict=True)):
            if isinstance(value, Tensor):
                if value._builder is not builder:
                    raise builder.error(
                        "E214",
                        "this value belongs to another kernel, or to an earlier trace of this one",
                        spans[position] if spans else self.name_span,
                        hint="values live only inside the kernel's function: do not keep them in globals",
                    )
                ref = value._ref
                out.append(Return(model.name, ref, spans[position] if spans else builder.nodes[ref.index].span))
            else:
                out.append(Return(model.name, value, spans[position] if spans else self.name_span))
        return out


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


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@overload
def kernel(function: Callable[..., Any], /) -> PythonKernel: ...


@overload
def kernel(*, epochs: int = 1, init: Mapping[str, Any] | None = None) -> Callable[[Callable[..., Any]], PythonKernel]: ...


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Make a kernel of a function: `@kernel` or `@kernel(epochs=10, init={"w": 0.1})`.

    Parameters
    ----------
    epochs: passes over the table, 1 unless given.
    init: the models' starts by name: a number, an array or `uniform(low, high, seed=1)`; 0 unless given.

    Raises
    ------
    KernelError: the signature is not one of a kernel. What the body does wrong is found when it is traced.
    """
    for name in options:
        if name not in ("epochs", "init"):
            raise error(
                "E203", f"kernel has no argument {name}", caller_span(), hint='usage: @ps.kernel(epochs=10, init={"w": 0.1})'
            )
    if function is not None:
        return _make(function, options)
    return lambda decorated: _make(decorated, options)


def _make(function: Any, options: dict[str, Any]) -> PythonKernel:
    made, node = declared(PythonKernel, function, KINDS)
    made.check_header()
    for p, default in defaults(made):
        made.set_default(p, default, p.span)
    _options(made, node, options)
    return made


def defaults(made: Traced) -> list[tuple[Parameter, Any]]:
    """Return the parameters that have a default, with it."""
    pairs = zip(made.parameters, inspect.signature(made.function).parameters.values(), strict=True)
    return [(p, written.default) for p, written in pairs if written.default is not inspect.Parameter.empty]


def declared(cls: type[T], function: Any, kinds: Sequence[str]) -> tuple[T, ast.FunctionDef | ast.AsyncFunctionDef | None]:
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
        returns = "the models' new values" if issubclass(cls, Kernel) else "least_squares(...)"
        decorator = "@ps.kernel" if issubclass(cls, Kernel) else "@ps.fit"
        raise error(
            "E405",
            f"a kernel is made from a function, not from {what}",
            caller_span(),
            hint=f"write `{decorator}` above a plain `def` that returns {returns}",
        )
    code = function.__code__
    node = places.function_node(code)
    file = code.co_filename
    source = "".join(linecache.getlines(file)) or None
    made = cls(function.__name__, file, source, [], places.name_span(code, node), function=function)
    arguments = (
        {
            a.arg: a
            for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            if a
        }
        if node
        else {}
    )
    for name, parameter in inspect.signature(function).parameters.items():
        span = node_span(file, arguments[name]) if name in arguments else made.name_span
        made.parameters.append(_parameter(made, function, parameter, span, kinds))
    return made, node


def _parameter(made: Traced, function: FunctionType, parameter: inspect.Parameter, span: Span, kinds: Sequence[str]) -> Parameter:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise made.error(
            "E402",
            f"a kernel cannot take {stars}{parameter.name}: its parameters are fixed",
            span,
            hint="name each input, output, model and meta",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise made.error(
            "E402",
            f"the parameter {parameter.name} stands before a /; a kernel's parameters go by name",
            span,
            hint="leave out the /",
        )
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(made, function, parameter.name, annotation, span, kinds)
    if not isinstance(annotation, Annotation):
        if annotation is inspect.Parameter.empty:
            raise untyped(made, parameter.name, None, span, kinds)
        raise untyped(made, parameter.name, getattr(annotation, "__name__", None) or repr(annotation), span, kinds)
    if annotation.kind not in kinds:
        raise misplaced(made, parameter.name, annotation.kind, span, kinds)
    return Parameter(parameter.name, annotation.kind, annotation.dims, span)


def misplaced(made: AnyKernel, name: str, kind: str, span: Span, known: Sequence[str]) -> KernelError:
    """Return the error for a kind that this sort of kernel does not have: E457 where another one has it, else E401."""
    if kind == "key":
        hint = "a learned index is fitted by a fit kernel: write @ps.fit above the function (as text: `fit name(key: key)`)"
        return made.error("E457", f"{name} is a key, which only a fit kernel takes", span, hint=hint)
    if kind in KINDS:
        hint = f"a fit kernel's parameters are a key, or inputs and an output: leave {name} out; the weights are what it returns"
        return made.error("E457", f"{name} is a {kind}, which a fit kernel does not have", span, hint=hint)
    return untyped(made, name, kind, span, known)


def untyped(made: AnyKernel | None, name: str, found: str | None, span: Span, known: Sequence[str] = KINDS) -> KernelError:
    """Return the error (E401) for a parameter without a kind, or with an unknown one."""
    message = f"the parameter {name} has no kind" if found is None else f"{found} is not a kind of parameter"
    kinds = ", ".join(kind.capitalize() for kind in known)
    source = made.source if made is not None else None
    example = ("ps.Key", "key") if known[0] == "key" else ('ps.Input["d"]', "input[d]")
    return error(
        "E401",
        message,
        span,
        source=source,
        hint=f'the kinds are {kinds} (as text in lower case), as in `{name}: {example[0]}` or `{name}: {example[1]}`',
    )


def _evaluated(made: Traced, function: FunctionType, name: str, text: str, span: Span, kinds: Sequence[str]) -> Any:
    """An annotation that `from __future__ import annotations` left as text."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        return eval(text, function.__globals__, {variable: cell.cell_contents for variable, cell in cells})
    except Exception:
        raise untyped(made, name, text, span, kinds) from None


def written_options(node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> dict[str, ast.expr]:
    """Return what stands behind the options of a function's decorators, by name."""
    values: dict[str, ast.expr] = {}
    for decorator in node.decorator_list if node else ():
        if isinstance(decorator, ast.Call):
            values.update({keyword.arg: keyword.value for keyword in decorator.keywords if keyword.arg})
    return values


def _options(made: PythonKernel, node: ast.FunctionDef | ast.AsyncFunctionDef | None, options: dict[str, Any]) -> None:
    values = written_options(node)

    def place(name: str) -> Span:
        return node_span(made.file, values[name]) if name in values else made.name_span

    if "epochs" in options:
        made.set_epochs(options["epochs"], place("epochs"))
    init = options.get("init")
    if init is None:
        return
    if not isinstance(init, Mapping):
        raise made.error(
            "E442",
            f"init must be a dictionary from models to starts, not {kind_of(init)}",
            place("init"),
            hint='as in init={"w": 0.1}',
        )
    literal = values.get("init")
    parts: dict[Any, ast.expr] = {}
    if isinstance(literal, ast.Dict):
        parts = {
            key.value: value for key, value in zip(literal.keys, literal.values, strict=True) if isinstance(key, ast.Constant)
        }
    for name, value in init.items():
        made.set_init(str(name), value, node_span(made.file, parts[name]) if name in parts else place("init"))
