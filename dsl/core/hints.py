"""What to do about shapes and batches that do not fit, and about misspelt names: hints of diagnostics, with the names and sizes at hand."""

import difflib
from collections.abc import Iterable, Sequence

from . import dims as D

#: an operand's name, empty where it has none, and its shape
Operand = tuple[str, D.Shape]

#: for divisions by a constant 0
ZERO = "divide by another number; to leave elements out, multiply by a vector of zeros and ones"


def closest(name: str, known: Iterable[str]) -> str:
    """Return the hint that names what the user may have meant, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {matches[0]}?" if matches else ""


def broadcast(operands: Sequence[Operand]) -> str:
    """What may be meant by operands whose sizes are known and do not broadcast."""
    shapes = [shape for _, shape in operands]
    for name, shape in operands:
        if len(shape) == 1 and any(len(other) == 2 and other[0] == shape[0] for other in shapes):
            return f"{name or 'v'}[:, None] makes a column of the vector, with one element for each row of the matrix"
        if len(shape) == 2 and any(other == shape[::-1] and other != shape for other in shapes):
            return f"transpose one of them: {name or 'v'}.T"
    return "counted from the last dimension, sizes must be equal or 1; outer(a, b) takes vectors of any sizes"


def matmul(left: Operand, right: Operand) -> str:
    """What may be meant by a product of vectors or matrices that does not fit; nothing where sizes are not known."""
    (a, first), (b, second) = (left[0] or "a", left[1]), (right[0] or "b", right[1])
    if D.unresolved(first, second):
        return ""
    if len(first) == 2 and first[0] == second[0]:
        return f"transpose the left side: {a}.T @ {b}"
    if len(second) == 2 and first[-1] == second[1]:
        return f"transpose the right side: {a} @ {b}.T"
    return f"the left side's last dimension, {first[-1]}, and the right side's first, {second[0]}, must be the same"
