"""The dialect of recurrences: `recurrence name(...)` and `@ps.recurrence`."""

from __future__ import annotations

from pathlib import Path

from ..core.functions import VALUES
from ..dialect import Dialect, Words
from .attention import append, softmax
from .front import PythonRecurrence, TextRecurrence
from .kernel import Recurrence


def _options() -> None:
    """Make a recurrence of a function: `@recurrence`.

    The function is one step of one head: it takes the state and the step's inputs, and returns the new
    state and the output. A function that returns an output alone reads a cache, which may grow by a row: `K = append(K, key)`.

    Raises KernelError: the signature is not one of a recurrence.
    """


DIALECT = Dialect(
    keyword="recurrence",
    kinds=("state", "cache", "input"),
    functions={**VALUES, softmax.name: softmax, append.name: append},
    kernel=Recurrence,
    python=PythonRecurrence,
    text=TextRecurrence,
    options=_options,
    words=Words(
        one="a recurrence",
        usage="@ps.recurrence",
        header="S: state[k, v], k: input[k], v: input[v], q: input[k]",
        example=('ps.State["k", "v"]', "state[k, v]"),
        returns="the new state and the output",
        does="steps a state from token to token",
        purpose="a state beside memory is stepped by a recurrence",
        no_kind="a recurrence's parameters are one state, or two caches, and its inputs: make {name} one of them, or leave it out",
        no_statement="a recurrence has no more than its steps: leave it out",
    ),
    pages=Path(__file__).with_name("pages"),
    groups={"E46": "Recurrences"},
)
