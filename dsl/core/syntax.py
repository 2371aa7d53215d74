"""What to say when a kernel's text cannot be parsed: the parser's complaint becomes one diagnostic that fits the mistake."""

import re
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from ...models.plugins import absent
from ..dialect import dialects
from . import functions
from .diagnostics import KernelError, Span, error
from .header import untyped

#: what a message calls the parser's terminals
_NAMES = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a text",
    "COMPARE": "a comparison",
    "SUM": "+ or -",
    "PRODUCT": "* or /",
    "POWER": "**",
    "_NL": "the end of the line",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "COLON": ":",
    "EQUAL": "=",
    "DOT": ".",
    "ARROW": "<-",
    "KEYWORD": "kernel",
    "CHANGE": "+=",
    "BATCH": "batch",
    "EPOCHS": "epochs",
    "UNTIL": "until",
    "INIT": "init",
    "$END": "the end of the text",
}
_DECIDING = ("if", "else", "elif", "while", "and", "or", "not")
_FOREIGN = {
    "for": "operations work on whole vectors; sum, prod, norm, max and min take the place of loops",
    "return": "give a model its new value with `w <- ...`",
    "def": "a kernel begins with `kernel name(parameters)`",
    "import": "every function is at hand without import",
    "from": "every function is at hand without import",
    "lambda": "write the expression where it is needed",
    "class": "a kernel begins with `kernel name(parameters)`",
}
_CLOSING = {"(": ")", "[": "]"}
#: what to write instead of characters that kernels do not have
_CHARACTERS = {
    ";": "end the line here: every statement has a line of its own",
    "{": "lists of numbers stand in [ ], expressions in ( )",
    "}": "lists of numbers stand in [ ], expressions in ( )",
    "?": "write where(condition, a, b)",
    "\u00d7": "write * to multiply",
    "\u00b7": "write * to multiply",
    "\u2212": "write the minus of the keyboard, -",
    "\u2013": "write the minus of the keyboard, -",
    "\u00f7": "write / to divide",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u2190": "write <-",
    "\u00b2": "write ** 2",
    "\u221a": "write sqrt(v)",
    "\u03a3": "write sum(v)",
    "\u2211": "write sum(v)",
    "\u201c": 'type the plain quote of the keyboard, "',
    "\u201d": 'type the plain quote of the keyboard, "',
    "\u2018": "type the plain quote of the keyboard, '",
    "\u2019": "type the plain quote of the keyboard, '",
    "\u00a0": "delete this invisible character and type the space anew",
    "\u200b": "delete this invisible character",
}
_STATEMENTS = "a line is `name = expression`, `model <- expression`, `model[index] += expression`, "
_STATEMENTS += (
    "`score name = expression`, `epochs N`, `batch N`, `until condition` or `init model = value`"
)
_HEADER = "a kernel begins with `kernel name(parameters)`, as in `kernel linear(x: input[d], y: output, w: model[d])`"


def syntax_error(
    problem: UnexpectedInput, opened: list[Token], seen: list[Token], source: str, file: str
) -> KernelError:
    """Return the diagnostic for a text that does not parse; `opened` are the brackets that were open where the parser stopped,
    `seen` the latest tokens that it was given."""
    reader = _Reader(problem, seen, source, file)
    described = reader.describe(opened)
    return error(*described[:3], *described[3], hint=described[4], source=source)


_Description = tuple[str, str, Span, list[tuple[Span, str]], str]


class _Reader:
    def __init__(self, problem: UnexpectedInput, seen: list[Token], source: str, file: str) -> None:
        self.problem = problem
        self.source = source
        self.file = file
        self.lines = source.splitlines()
        self.token: Token | None = problem.token if isinstance(problem, UnexpectedToken) else None
        earlier = [token for token in seen if token is not self.token]
        self.before = earlier[-1] if earlier else None
        self.type = self.token.type if self.token is not None else ""
        self.expected: set[str] = set(
            getattr(problem, "accepts", None)
            or getattr(problem, "expected", None)
            or getattr(problem, "allowed", None)
            or ()
        )
        if self.expected == {"ARROW", "EQUAL", "LSQB", "NAME"}:  # the rarer ones are rarely meant
            self.expected -= {"LSQB", "NAME"}

    def span(self, token: Any) -> Span:
        return Span(self.file, token.line, token.column, token.end_line, token.end_column)

    def place(self) -> Span:
        """Where the parser stopped; at the end of a line or of the text, the last character before."""
        if self.token is not None and self.type == "_NL":
            return self._end_of_line(self.token.line or 1)
        if self.type == "$END" or isinstance(self.problem, UnexpectedEOF):
            last = next((i for i in range(len(self.lines), 0, -1) if self._code(i)), 1)
            return self._end_of_line(last)
        if self.token is not None:
            return self.span(self.token)
        return Span(
            self.file,
            self.problem.line,
            self.problem.column,
            self.problem.line,
            self.problem.column + 1,
        )

    def _code(self, line: int) -> str:
        """A line without its comment."""
        return (
            re.sub(r"""#[^"']*$|#.*$""", "", self.lines[line - 1]).rstrip()
            if line <= len(self.lines)
            else ""
        )

    def _end_of_line(self, line: int) -> Span:
        end = max(len(self._code(line)), 1)
        return Span(self.file, line, end, line, end + 1)

    def word(self, line: int) -> tuple[str, Span] | None:
        match = re.match(r"\s*([^\W\d]\w*)", self._code(line))
        return (
            (match[1], Span(self.file, line, match.start(1) + 1, line, match.end(1) + 1))
            if match
            else None
        )

    def describe(self, opened: list[Token]) -> _Description:
        place = self.place()
        for step in (self._character, self._words, self._brackets, self._header, self._statement):
            description = step(place, opened)
            if description is not None:
                return description
        return self._plain(place)

    def _character(self, place: Span, opened: list[Token]) -> _Description | None:
        if not isinstance(self.problem, UnexpectedCharacters):
            return None
        text = self.lines[place.line - 1] if place.line <= len(self.lines) else ""
        character = text[place.column - 1 : place.column]
        if character in "&|^~" and character:
            hint = functions.no_operator(None, character, place).diagnostic.hint
            return "E205", f"kernels have no operator {character}", place, [], hint
        if character in "\"'" and character:
            return (
                "E101",
                "this text is never closed",
                place,
                [],
                f"put a {character} behind it, on the same line",
            )
        if character == "\\":
            return (
                "E101",
                "unexpected \\",
                place,
                [],
                "a line goes on below inside brackets; put the expression in ( )",
            )
        if character == "!":
            return (
                "E205",
                "kernels have no operator !",
                place,
                [],
                functions.no_operator(None, "~", place).diagnostic.hint,
            )
        hint = _CHARACTERS.get(
            character,
            "names are made of letters, digits and _; the operators are + - * / @ ** < > <= >=",
        )
        return "E101", f"unexpected character {character!r}", place, [], hint

    def _words(self, place: Span, opened: list[Token]) -> _Description | None:
        """Words of Python that kernels do not have."""
        first = self.word(place.line)
        candidates = [first] if first else []
        if self.token is not None and self.type == "NAME":
            candidates.insert(0, (str(self.token), place))
        if self.before is not None and self.before.type == "NAME":
            candidates.insert(0, (str(self.before), self.span(self.before)))
        for word, span in candidates:
            if word in _DECIDING:
                diagnostic = functions.control_flow(
                    None, "if" if word in ("else", "elif") else word, span
                ).diagnostic
                return diagnostic.code, diagnostic.message, span, [], diagnostic.hint
            if word in _FOREIGN:
                return "E101", f"kernels as text have no `{word}`", span, [], _FOREIGN[word]
        if first and first[0] in dialects() and self._after_header(place.line):
            return (
                "E105",
                "a second kernel begins here",
                first[1],
                [],
                "a file holds one kernel as text",
            )
        return None

    def _after_header(self, line: int) -> bool:
        words = (self.word(i) for i in range(1, line))
        return any(word is not None and word[0] in dialects() for word in words)

    def _brackets(self, place: Span, opened: list[Token]) -> _Description | None:
        if self.type in ("RPAR", "RSQB"):
            closing = ")" if self.type == "RPAR" else "]"
            if opened and {"LPAR": "RPAR", "LSQB": "RSQB"}[opened[-1].type] != self.type:
                return (
                    "E101",
                    f"{closing} cannot close {opened[-1]}",
                    place,
                    [(self.span(opened[-1]), "opened here")],
                    (f"close the {opened[-1]} first, with a {_CLOSING[str(opened[-1])]}"),
                )
            if not opened and "LPAR" not in self.expected | {"NAME"}:
                return (
                    "E101",
                    f"there is no open bracket that this {closing} could close",
                    place,
                    [],
                    (
                        f"leave it out, or put in the {'(' if closing == ')' else '['} that it closes"
                    ),
                )
        elif opened and (self.type in ("$END", "") or place.line > (opened[-1].line or 0)):
            hint = f"put a {_CLOSING[str(opened[-1])]} where what belongs to it ends"
            return "E101", f"this {opened[-1]} is never closed", self.span(opened[-1]), [], hint
        return None

    def _header(self, place: Span, opened: list[Token]) -> _Description | None:
        if "KEYWORD" in self.expected:
            return (
                "E101",
                f"a kernel begins with the word kernel, not with {self._found()}",
                place,
                [],
                _HEADER + absent(),
            )
        if self.expected == {"COLON"}:
            name = str(self.before or "")
            span = self.span(self.before) if self.before is not None else place
            head = next((word[0] for i in range(1, span.line + 1) if (word := self.word(i))), "")
            dialect = dialects().get(head) or next(iter(dialects().values()))
            diagnostic = untyped(dialect, name, None, span).diagnostic
            return diagnostic.code, diagnostic.message, diagnostic.span, [], diagnostic.hint
        if self.expected == {"NAME", "RPAR"} or (
            self.expected == {"NAME"} and self.type in ("PRODUCT", "POWER")
        ):
            if (
                self.type in ("PRODUCT", "POWER")
                and self.token is not None
                and self.token in ("*", "**")
            ):
                match = re.match(r"\s*(\w*)", self.lines[place.line - 1][place.end_column - 1 :])
                shown = f"{self.token}{match[1] if match else ''}"
                span = Span(
                    self.file, place.line, place.column, place.line, place.column + len(shown)
                )
                return (
                    "E402",
                    f"a kernel cannot take {shown}: its parameters are fixed",
                    span,
                    [],
                    "name each input, output, model and meta",
                )
            return (
                "E101",
                f"a parameter is missing or misspelt: found {self._found()}",
                place,
                [],
                "a parameter is `name: kind`, as in `x: input[d]`",
            )
        first = self.word(place.line)
        if self.expected == {"LPAR"} and self.type != "$END" and first and first[0] in dialects():
            message = f"the kernel's parameters are missing: found {self._found()}"
            return "E101", message, place, [], _HEADER
        return None

    def _statement(self, place: Span, opened: list[Token]) -> _Description | None:
        return self._target(place) or self._assignment(place) or self._expression(place, opened)

    def _target(self, place: Span) -> _Description | None:
        """What stands before = or <- cannot be given a value so."""
        first = self.word(place.line)
        if (
            first
            and first[0] in ("epochs", "init", "batch", "until")
            and self.type in ("EQUAL", "ARROW", "CHANGE")
        ):
            usage = {
                "epochs": "epochs 10",
                "init": "init w = 0.1",
                "batch": "batch 256",
                "until": "until norm(step) < 0.01",
            }[first[0]]
            between = self.lines[first[1].line - 1][first[1].end_column - 1 : place.column - 1]
            if place.line == first[1].line and between.lstrip()[:1] in ("", "["):
                return (
                    "E101",
                    f"{first[0]} is a word of the language and cannot be given a value",
                    first[1],
                    [],
                    f"it is written like `{usage}`"
                    + "; rename the parameter" * bool(between.strip()),
                )
        rest = (
            self.lines[place.line - 1][place.column - 1 :] if place.line <= len(self.lines) else ""
        )
        changed = re.match(r"(\+|-|\*\*?|//?|@|%)=", rest)
        if changed and "CHANGE" in self.expected:
            end = place.column + len(changed[0])
            span = Span(self.file, place.line, place.column, place.line, end)
            hint = "the changes of rows are +=, -=, max=, min= and <-"
            return "E212", f"rows of a model have no change {changed[0]}", span, [], hint
        if (
            changed
            and first
            and self.before is not None
            and self.span(self.before) == first[1]
            and self.expected <= {"ARROW", "EQUAL"}
        ):
            span = Span(
                self.file, place.line, place.column, place.line, place.column + len(changed[0])
            )
            name, symbol = first[0], changed[1]
            hint = f"write `{name} <- {name} {symbol} ...` for a model, or give an intermediate value a new name: `{name}2 = {name} {symbol} ...`"
            return "E212", f"as text, {name} cannot be changed in place", span, [], hint
        return None

    def _assignment(self, place: Span) -> _Description | None:
        """A second = or <- in a line, or none."""
        if self.type == "EQUAL":
            return (
                "E101",
                "unexpected =",
                place,
                [],
                "a line gives one name a value: `name = expression`; compare with <= and >=",
            )
        if self.type == "ARROW":
            return (
                "E101",
                "unexpected <-",
                place,
                [],
                "a model gets its new value in a line of its own: `w <- expression`",
            )
        if self.expected and self.expected <= {"ARROW", "EQUAL"}:
            return (
                "E101",
                f"this line gives nothing a value: found {self._found()}",
                place,
                [],
                _STATEMENTS,
            )
        return None

    def _expression(self, place: Span, opened: list[Token]) -> _Description | None:
        """An expression goes on in a way that none can."""
        if self.type in ("_NL", "$END") and "NAME" in self.expected and "NUMBER" in self.expected:
            hint = "finish the expression, or put it in ( ) to go on below"
            return "E101", "the line ends where an expression is expected", place, [], hint
        joined = (
            self.before is not None
            and self.token is not None
            and self.before.end_pos == self.token.start_pos
        )
        if (
            joined
            and self.before is not None
            and self.before.type == "NUMBER"
            and re.match("[xXbBoO_]", str(self.token))
        ):
            hint = "numbers are decimal and without _, as in 1000 or 1e3"
            return (
                "E101",
                f"unexpected {self._found()} behind the number {self.before}",
                place,
                [],
                hint,
            )
        if self.type in ("NAME", "NUMBER", "STRING", "LPAR") and "SUM" in self.expected:
            return (
                "E101",
                f"an operator is missing before {self._found()}",
                place,
                [],
                "write * to multiply" + (", and commas between arguments" if opened else ""),
            )
        if self.expected >= {"EPOCHS", "INIT"} or "EPOCHS" in self.expected:
            return "E101", f"a line cannot begin with {self._found()}", place, [], _STATEMENTS
        return None

    def _plain(self, place: Span) -> _Description:
        if "NAME" in self.expected and "NUMBER" in self.expected:
            hint = "put in what is missing: a number, a name or a function's call; or leave out what is too much"
            return "E101", f"an expression is expected here, not {self._found()}", place, [], hint
        names = [_NAMES.get(name, name.lower()) for name in sorted(self.expected)]
        hint = f"expected {' or '.join(names)}" if 0 < len(names) <= 4 else _STATEMENTS
        return "E101", f"unexpected {self._found()}", place, [], hint

    def _found(self) -> str:
        if self.token is None or self.type in ("_NL", "$END"):
            return _NAMES.get(self.type, "the end of the text")
        return str(self.token)
