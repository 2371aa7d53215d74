"""What is wrong with the kinds of a kernel's parameters, from either front end."""

from ..dialect import Dialect, owner
from .diagnostics import KernelError, Span, error


def misplaced(
    dialect: Dialect, name: str, kind: str, span: Span, source: str | None
) -> KernelError:
    """Return the error for a kind that the dialect does not have: E457 where another one has it, else E401."""
    other = owner(kind, "kinds")
    if other is None:
        return untyped(dialect, name, kind, span, source)
    words, others = dialect.words, other.words
    if words.no_kind:
        article = "an" if kind[0] in "aeio" else "a"
        message = f"{name} is {article} {kind}, which {words.one} does not have"
        return error("E457", message, span, hint=words.no_kind.format(name=name), source=source)
    message = f"{name} is a {kind}, which only {others.one} takes"
    hint = f"{others.purpose}: {other.begin}" if others.purpose else other.begin
    return error("E457", message, span, hint=hint, source=source)


def untyped(
    dialect: Dialect, name: str, annotation: str | None, span: Span, source: str | None = None
) -> KernelError:
    """Return the error (E401) for a parameter without a kind, or with an unknown one."""
    message = (
        f"the parameter {name} has no kind"
        if annotation is None
        else f"{annotation} is not a kind of parameter"
    )
    kinds = ", ".join(kind.capitalize() for kind in dialect.kinds)
    python, text = dialect.words.example
    if dialect.python is None:
        hint = f"the kinds are {', '.join(dialect.kinds)}, as in `{name}: {text}`"
        return error("E401", message, span, hint=hint, source=source)
    hint = f"the kinds are {kinds} (as text in lower case), as in `{name}: {python}` or `{name}: {text}`"
    return error("E401", message, span, hint=hint, source=source)
