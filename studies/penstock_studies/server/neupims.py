"""NeuPIMs (ASPLOS 2024): attention beside banks with two row buffers, beside which the other half of a batch
is multiplied: a system for the paper's comparison with it."""

from .assumptions import PUBLISHED, Assumptions
from .operators import Category
from .serving import System, serve, systems
from .shapes import ModelShape


def latency(
    shape: ModelShape, batch: int, context: int, *, assumptions: Assumptions = PUBLISHED
) -> float:
    """Return the seconds of one token after `context` others: attention in 16 bits beside the banks, hidden
    under the matrix products of the other half of the batch as far as it goes; state updates on the GPU.

    The paper's own figure was drawn with a simulator that is not public: this is an inference.
    """
    made = systems()
    half = serve(shape, made["GPU+PIM"], batch, assumptions=assumptions, prompt=context, tokens=2)
    plain = serve(shape, made["GPU"], batch, assumptions=assumptions, prompt=context, tokens=2)
    hidden = min(half.seconds[Category.ATTENTION], plain.seconds[Category.GEMM])
    rest = plain.latency - plain.seconds[Category.ATTENTION]
    return rest + half.seconds[Category.ATTENTION] - hidden


def device_bytes(shape: ModelShape, system: System, batch: int, context: int) -> float:
    """Return the bytes that a device holds: its share of the weights (16 bits each, as many as the model's
    name says), of the states, and of keys and values of `context` tokens."""
    weights = float(shape.name.split("-")[1].removesuffix("b")) * 1e9 * 2
    kept = float(shape.state_elements)
    if shape.attention is not None:
        attention = shape.attention
        kept += 2.0 * attention.layers * attention.heads * attention.dim_head * context
    return (weights + kept * batch * system.state_bytes) / shape.devices
