"""Latencies of the engine's units and pipelines, in cycles."""

from ..numerics.formats import float32
from ..numerics.latency import convert_latency, latency

MUL, ADD, DIV = latency("mul", float32), latency("add", float32), latency("div", float32)
#: an exact integer rounded to float32
CONVERT = convert_latency(["int8"], float32)
#: a float32 rounded down to an integer
FLOOR = 2
#: h = trunc(c_0 / rows), then c - h · sums and its conversion, from the last word of exact sums to the first entry of the right side at the latest
MIDDLE = 1 + CONVERT + DIV + FLOOR + 1 + 3 + CONVERT + 1
#: cycles of operand memories around the units: two to read, one to write
ACCESS = 3
#: a product and a difference, from issue to where the next operation may be issued
STEP = MUL + ADD + ACCESS
#: columns that share an adder where bounds are widened, a power of two: two sums each, beside the hundreds of cycles of a job
WIDEN_SHARED = 4
#: cycles, from a segment's start, in which widening has the dot unit: for the sum upwards, that downwards, and their size
WIDEN_TURNS = tuple(
    1 + ADD + turn for turn in (WIDEN_SHARED + 1, WIDEN_SHARED + 2, 2 * WIDEN_SHARED + 2)
)


def dot_latency(n_max: int) -> int:
    """From a row in the dot unit to err_min and err_max: products, a tree of as many levels as there are columns, truncation, difference, comparison."""
    return MUL + (n_max - 1).bit_length() * ADD + FLOOR + 2


def widen_latency(n_max: int) -> int:
    """From a segment's start to its bounds: terms of columns in turn, sums of them, slack, rounding down in two turns, bounds."""
    return WIDEN_TURNS[-1] + MUL + (n_max - 1).bit_length() * ADD + ADD + FLOOR + 2


def settling(n_max: int) -> int:
    """Cycles in which whatever is in the pipelines comes out of them while nothing goes in: all of them one behind the other, which none is."""
    return dot_latency(n_max) + widen_latency(n_max) + 2 * (2 * STEP + 2 * DIV + MIDDLE)
