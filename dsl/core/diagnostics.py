"""What a user's mistake looks like: one diagnostic with a code, a message, places in the source and a hint.

Both front ends, the binding of columns and the options of a run raise `KernelError` with one `Diagnostic`. The command line
prints `render(...)` and ends with exit code 1; `penstock explain CODE` prints the page of the code (`penstock.dsl.core.codes`).
"""

from __future__ import annotations

import linecache
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from ...models.errors import Error
from ...models.inputs import Input, InputError

#: a span over more lines than this shows its first and last lines only
_MOST_LINES = 6
#: longer source lines are cut around the carets
_MOST_COLUMNS = 160
#: longer messages, labels and hints (a name may have a million letters) lose their middle
_MOST_TEXT = 4000
_SOURCE = Input("a kernel", "", most=1 << 24)


@dataclass(frozen=True)
class Span:
    """A place in a source file. Lines and columns count from 1; `end_column` is the column after the last character.

    Line 0 stands for the file as a whole (an empty file, an option of the command line).
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def whole(cls, file: str) -> Span:
        return cls(file, 0, 0, 0, 0)


@dataclass(frozen=True)
class Note:
    """Another place that has to do with a diagnostic, and what is to be seen there."""

    span: Span
    label: str


@dataclass(frozen=True)
class Diagnostic:
    """One finding. Whoever makes one owes a hint; an empty one (nothing close to a misspelt name, say) becomes a pointer to the code's page."""

    code: str
    message: str
    span: Span
    notes: tuple[Note, ...] = ()
    hint: str = field(kw_only=True)  #: how to mend it
    severity: str = field(default="error", kw_only=True)  #: "error" or "warning"

    def __post_init__(self) -> None:
        if not self.hint:
            object.__setattr__(self, "hint", f"`penstock explain {self.code}` has more")

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "span": self.span.to_json(),
            "notes": [{"label": note.label, "span": note.span.to_json()} for note in self.notes],
            "hint": self.hint,
        }


class KernelError(Error):
    """The user's error: `diagnostic` says what and where. `source` is the text of the diagnostic's file, where it is known."""

    def __init__(self, diagnostic: Diagnostic, source: str | None = None) -> None:
        super().__init__(diagnostic.message, diagnostic.hint, code=diagnostic.code)
        self.diagnostic = diagnostic
        self.source = source
        self.spans = (diagnostic.span, *(note.span for note in diagnostic.notes))

    def __str__(self) -> str:
        return render(self.diagnostic, self.source)


def error(
    code: str,
    message: str,
    span: Span,
    *notes: tuple[Span, str],
    hint: str,
    source: str | None = None,
) -> KernelError:
    """Return (not raise) the `KernelError` for one diagnostic; notes are pairs of a span and a label."""
    return KernelError(
        Diagnostic(code, message, span, tuple(Note(*note) for note in notes), hint=hint), source
    )


def render(diagnostic: Diagnostic, source: str | None = None) -> str:
    """Return the diagnostic as text, without a newline at the end.

    * `source`: the text of the file that `diagnostic.span` names; without it, and for notes in other files,
      the file is read.
    """
    # an empty file has an empty line to point at
    sources = (
        {}
        if source is None
        else {diagnostic.span.file: source.split("\n") if not source else source.splitlines()}
    )
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {_shortened(diagnostic.message)}"]
    shown = [diagnostic.span, *(note.span for note in diagnostic.notes)]
    width = max(len(str(span.end_line)) for span in shown)
    lines += _excerpt(diagnostic.span, sources, width)
    for note in diagnostic.notes:
        lines.append(f"note: {_shortened(note.label)}")
        lines += _excerpt(note.span, sources, width)
    lines.append(f"hint: {_shortened(diagnostic.hint)}")
    return "\n".join(lines)


def _shortened(text: str) -> str:
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]} … {text[-half:]}"


def _excerpt(span: Span, sources: dict[str, list[str]], width: int) -> list[str]:
    """The place and, where the text is at hand, its lines with carets below."""
    out = [f"{' ' * width}--> {span}"]
    if not span.line:
        return out
    if span.file not in sources:
        sources[span.file] = []
        with suppress(InputError):  # a folder from somebody else may name any file
            if span.file not in linecache.cache:
                _SOURCE.open(span.file).close()
            sources[span.file] = [line.rstrip("\r\n") for line in linecache.getlines(span.file)]
    text = sources[span.file]
    if span.line > len(text):
        # the end of the file: there is nothing to underline
        return out
    last = min(max(span.end_line, span.line), len(text))
    numbers = list(range(span.line, last + 1))
    skipped = len(numbers) > _MOST_LINES
    if skipped:
        numbers = [*numbers[: _MOST_LINES - 2], numbers[-1]]
    out.append(f"{' ' * width} |")
    for number in numbers:
        line = text[number - 1]
        if skipped and number == numbers[-1]:
            out.append(f"{' ' * width} ...")
        body = len(line) - len(line.lstrip())
        start = span.column - 1 if number == span.line else body
        end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
        start = min(max(start, 0), len(line))
        end = max(min(end, len(line)), start + 1)
        line, start, end = _cut(line, start, end)
        # tabs stay tabs in the line of carets, so that both lines move alike on any terminal
        pad = "".join("\t" if character == "\t" else " " for character in line[:start])
        out.append(f"{number:>{width}} | {line}")
        out.append(f"{' ' * width} | {pad}{'^' * (end - start)}")
    return out


def _cut(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Cut a very long line to the part around columns start … end (from 0)."""
    if len(line) <= _MOST_COLUMNS:
        return line, start, end
    first = max(0, min(start - 20, len(line) - _MOST_COLUMNS))
    stop = first + _MOST_COLUMNS
    head = "…" if first else ""
    tail = "…" if stop < len(line) else ""
    shift = len(head) - first
    return head + line[first:stop] + tail, start + shift, min(end, stop) + shift
