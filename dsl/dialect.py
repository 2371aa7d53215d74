"""Dialects: what a keyword of the kernel language brings with it, and where dialects are found.

`kernel name(...)` and `@ps.kernel` begin a kernel of one dialect, `fit name(...)` and `@ps.fit` one of another. A dialect is
found where a package beside this module has a module `dialect` with a `DIALECT`, or where an installed distribution names a
`Dialect` under the entry-point group `penstock.dialects`. Both front ends and the documentation of codes ask `dialects()`;
none of them knows a dialect by name.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, overload

from ..models import plugins

#: entry points under which packages offer dialects: each names a `Dialect`
GROUP = "penstock.dialects"
#: the statements of texts that belong to no place in the body; decorators have them as options
OPTIONS = ("epochs", "init", "batch")


@dataclass(frozen=True)
class Signature:
    """How a function is called: positional arguments, and optional ones with their defaults."""

    usage: str
    required: tuple[str, ...]
    optional: Mapping[str, Any]
    positional: int  #: how many arguments may stand without a name
    too_many: str = ""  #: what the usage adds where there are more


@dataclass(frozen=True)
class Function:
    """A function that kernels of a dialect call: `ps.NAME(...)` in Python, `NAME(...)` as text."""

    name: str
    signature: Signature
    #: `apply(builder, span, **arguments)` adds its operations to the graph and returns their value
    apply: Callable[..., Any]
    #: the definition whose parameters, annotations and docstring the user sees
    declared: inspect.Signature
    doc: str
    #: its value is one of Python's: it may stand outside a kernel's body, and `apply` is given the
    #: kernel's text or None instead of the builder
    literal: bool = False

    @property
    def usage(self) -> str:
        return self.signature.usage


@overload
def function(declared: Callable[..., Any], /) -> Function: ...


@overload
def function(
    *, usage: str = "", too_many: str = "", literal: bool = False
) -> Callable[[Callable[..., Any]], Function]: ...


def function(
    declared: Any = None, /, *, usage: str = "", too_many: str = "", literal: bool = False
) -> Any:
    """Make a function of kernels out of a Python function whose first two parameters are the builder and the call's place.

    The other parameters are those that the user sees, the docstring is what the editor shows. An annotation `Ref` of the
    result is shown as `Tensor`.

    * `usage`: how it is called, for messages; its name with its required parameters unless given.
    * `too_many`: what a message adds to the usage where it is given too many arguments.
    * `literal`: whether its value is one of Python's (see `Function`).
    """
    if declared is None:
        return lambda late: _function(late.__name__, late, usage, too_many, literal)
    return _function(declared.__name__, declared, usage, too_many, literal)


def _function(
    name: str,
    declared: Callable[..., Any],
    usage: str = "",
    too_many: str = "",
    literal: bool = False,
) -> Function:
    """Return the function of kernels that a definition declares (see `function`)."""
    header = inspect.signature(declared)
    shown = list(header.parameters.values())[2:]
    required = tuple(p.name for p in shown if p.default is p.empty)
    signature = Signature(
        usage or f"{name}({', '.join(required)})",
        required,
        {p.name: p.default for p in shown if p.default is not p.empty},
        sum(p.kind is not p.KEYWORD_ONLY for p in shown),
        too_many,
    )
    result = {"Ref": "Tensor"}.get(header.return_annotation, header.return_annotation)
    seen = header.replace(parameters=shown, return_annotation=result)
    return Function(name, signature, declared, seen, inspect.getdoc(declared) or "", literal)


@dataclass(frozen=True)
class Words:
    """What messages say of a dialect and its kernels. A hint that is empty is the common one."""

    one: str  #: such a kernel: "a fit kernel"
    usage: str  #: how the decorator is called
    header: str  #: parameters of a text: "key: key"
    example: tuple[str, str]  #: a parameter's kind in Python and as text
    returns: str  #: what the function returns
    call: str = "function"  #: what its functions are: "step"
    does: str = ""  #: what such a kernel does: "learns tuple by tuple"
    purpose: str = ""  #: what it is for
    no_function: str = ""  #: hint where a kernel calls another dialect's function
    no_kind: str = ""  #: hint where it has a parameter of another dialect's kind
    no_statement: str = "leave it out"  #: hint where it has a statement that the dialect lacks
    no_condition: str = ""  #: hint where it decides on a value
    #: arguments that functions and the decorator had, and what to write instead
    gone: Mapping[str, str] = field(default_factory=dict)
    #: functions that users of NumPy and its like look for, and what to do
    instead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """The language of the kernels that one keyword begins.

    Without `python` the keyword is no decorator, and kinds are no annotations: Python has another way,
    which `words.usage` shows, with the names in `declares` behind `ps.`.
    """

    keyword: str  #: the word before a kernel's name as text, and the decorator's name in Python
    kinds: tuple[str, ...]  #: of parameters as text; Python writes them with a capital letter
    functions: Mapping[str, Function]  #: that a kernel's body may call, by name
    kernel: type  #: the class of its kernels
    python: type | None  #: the class of those whose body is a Python function
    text: type  #: the class of those whose body is a text
    #: its keyword-only parameters are the decorator's, its docstring is the decorator's; None where
    #: there is no decorator
    options: Callable[..., None] | None
    words: Words
    #: of "epochs", "init", "batch" and "until", those that texts may have
    statements: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    pages: Path | None = None  #: the folder of its diagnostics' pages
    #: headings of the list of diagnostics, by the beginning of the code
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def public(self) -> tuple[str, ...]:
        """The names that stand behind `ps.`."""
        kinds = tuple(kind.capitalize() for kind in self.kinds)
        written = () if self.python is None else (self.keyword, *kinds)
        return (*written, self.kernel.__name__, *self.functions, *self.declares)

    @property
    def begin(self) -> str:
        """The hint that says how a kernel of the dialect begins."""
        if self.python is None:
            return f"write {self.words.usage} (as text: `{self.keyword} name({self.words.header})`)"
        return f"write @ps.{self.keyword} above the function (as text: `{self.keyword} name({self.words.header})`)"


def own_dialects() -> Iterator[Dialect]:
    """Yield Penstock's own dialects, those of the packages beside this module."""
    for package in pkgutil.iter_modules(import_module(__package__).__path__, f"{__package__}."):
        if package.ispkg and find_spec(f"{package.name}.dialect") is not None:
            yield import_module(f"{package.name}.dialect").DIALECT


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return all dialects by keyword: Penstock's own, then those of installed packages' entry points."""
    dialects = {dialect.keyword: dialect for dialect in own_dialects()}

    def accept(point: Any, offered: Any) -> None:
        if not isinstance(offered, Dialect):
            raise plugins.Unusable(f"{point.value} is no penstock.dsl.dialect.Dialect")
        if offered.keyword in dialects:
            raise plugins.Unusable(f"there is a keyword {offered.keyword} already")
        if taken := next(filter(reserved, offered.public), None):
            raise plugins.Unusable(f"its name {taken} is taken: penstock.{taken} is Penstock's own")
        dialects[offered.keyword] = offered

    plugins.load(GROUP, "dialect", accept)
    return dialects


def reserved(name: str) -> bool:
    """Return whether a name behind `ps.` is a module of Penstock or a name of its API, which no dialect may have: which of the
    two it meant would depend on what was imported before."""
    root = __name__.partition(".")[0]
    return name in plugins.RESERVED or find_spec(f"{root}.{name}") is not None


def find(keyword: str) -> Dialect:
    """Return the dialect of a keyword. Raises KeyError where there is none."""
    return dialects()[keyword]


def owner(name: str, what: str = "functions") -> Dialect | None:
    """Return the first dialect that has the name among its `functions` or `kinds`, None where none has it."""
    return next((d for d in dialects().values() if name in getattr(d, what)), None)


def declared() -> list[str]:
    """Return the names behind `ps.` of what is declared without a decorator, with its types."""
    return list(dict.fromkeys(name for d in dialects().values() for name in d.declares))


def names() -> list[str]:
    """Return the names that kernels write behind `ps.`: keywords, kinds of parameters, functions."""
    every = [dialect for dialect in dialects().values() if dialect.python is not None]
    kinds = [kind.capitalize() for dialect in every for kind in dialect.kinds]
    return list(
        dict.fromkeys(
            [*(d.keyword for d in every), *kinds, *(name for d in every for name in d.functions)]
        )
    )
