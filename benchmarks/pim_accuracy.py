"""What a state keeps in each number format: recurrences over 4,096 tokens beside float64.

The state is rounded to the format whenever it is written; products and sums are float64's. So this is the format's
own error, not a unit's. One table rounds the state alone, the other decays, keys, values and queries as well, as the
published emulation does. Stochastic rounding is the state's alone: it is what is written again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from common import SEED, Options, Section, main, markdown
from numpy.typing import NDArray

from penstock_studies.formats.quantised import Quantiser, quantiser

Array = NDArray[np.float64]
#: formats, and whether they have stochastic rounding
FORMATS = {
    "float16": False,
    "bfloat16": False,
    "int8": True,
    "mxint8": True,
    "e4m3": True,
    "e5m2": True,
    "mx9": True,
    "mx8": True,
    "mx6": True,
}
HEAD, STATE = 64, 64


@dataclass(frozen=True)
class Head:
    """A head's gates: `decays` (tokens, HEAD), `keys` factor (tokens, HEAD)."""

    name: str
    decays: Array
    scale: Array


def heads(rng: np.random.Generator, tokens: int) -> list[Head]:
    """Return two heads of each family, with a short and a long memory, as trained models have them.

    RetNet: 1 − 2^(−5 − h) of heads 0 and 7 (Sun et al. 2023). GLA: sigmoid(x)^(1/16) (Yang et al. 2024), x around 0
    and around 4. HGRN2: lower bounds 0 and 0.99 of the forget gate, keys 1 − gate (Qin et al. 2024). Mamba-2:
    exp(−dt A), keys times dt, dt from 0.001 to 0.1, A of 1 and 16 (Dao and Gu 2024).
    """
    ones = np.ones((tokens, HEAD))
    made = [Head(f"RetNet {n}", ones * (1 - 2.0 ** (-5 - n)), ones) for n in (0, 7)]
    for name, middle in (("short", 0.0), ("long", 4.0)):
        gate = 1 / (1 + np.exp(-(middle + rng.normal(size=(tokens, HEAD)))))
        made.append(Head(f"GLA {name}", gate ** (1 / 16), ones))
    for name, bound in (("short", 0.0), ("long", 0.99)):
        gate = bound + (1 - bound) / (1 + np.exp(-rng.normal(size=(tokens, HEAD)) - 2))
        made.append(Head(f"HGRN2 {name}", gate, 1 - gate))
    for name, step, rate in (("short", 0.1, 16.0), ("long", 0.001, 1.0)):
        dt = np.log1p(np.exp(rng.normal(size=(tokens, 1)) * 0.5 + np.log(np.expm1(step))))
        made.append(Head(f"Mamba-2 {name}", np.exp(-dt * rate) * ones, dt * ones))
    return made


def run(
    decays: Array,
    keys: Array,
    values: Array,
    queries: Array,
    quantised: Quantiser | None = None,
    random: np.random.Generator | None = None,
    inputs: bool = False,
) -> Array:
    """Return y of every token, (tokens, heads, STATE). Inputs are (tokens, heads, n), rounded as well if `inputs`;
    the state lies with its keys' axis last, along which groups run."""
    if quantised is not None and inputs:
        decays, keys, values, queries = map(quantised.quantise, (decays, keys, values, queries))
    state = np.zeros((*values.shape[1:], keys.shape[-1]))
    out = np.empty(values.shape)
    for t in range(len(keys)):
        state = state * decays[t, :, None, :] + values[t, :, :, None] * keys[t, :, None, :]
        # y is of the sum before it is rounded; the next token reads the state that was stored
        out[t] = np.einsum("hvk,hk->hv", state, queries[t])
        if quantised is not None:
            bits = None if random is None else random.integers(0, 256, state.shape, np.uint8)
            state = quantised.quantise(state, bits)
    return out


def drift(options: Options) -> str:
    tokens = 256 if options.quick else 4096
    rng = np.random.default_rng(SEED)
    made = heads(rng, tokens)
    decays = np.stack([head.decays for head in made], 1)
    keys = np.stack([head.scale * rng.normal(size=(tokens, HEAD)) for head in made], 1)
    values = rng.normal(size=(tokens, len(made), STATE))
    queries = rng.normal(size=(tokens, len(made), HEAD)) / np.sqrt(HEAD)
    given = (decays, keys, values, queries)
    exact = run(*given)
    last = slice(-tokens // 8, None)
    size = np.sqrt((exact[last] ** 2).mean((0, 2)))
    tables = []
    for inputs in (False, True):
        rows = []
        for name, stochastic in FORMATS.items():
            for random in (None, np.random.default_rng(SEED))[: 1 + stochastic]:
                got = run(*given, quantiser(name), random, inputs)
                error = np.sqrt(((got - exact)[last] ** 2).mean((0, 2))) / size
                way = "nearest" if random is None else "stochastic"
                rows.append([name, way, *(f"{100 * e:.3g}" for e in error)])
        tables.append(
            markdown(f"format | rounding | {' | '.join(head.name for head in made)}", rows)
        )
    return (
        f"The state alone is rounded:\n\n{tables[0]}\n\n"
        f"Decays, keys, values and queries as well:\n\n{tables[1]}\n\n"
        f"Error of y in percent of its size (root mean square over the last eighth of {tokens:,} "
        f"tokens, {HEAD} × {STATE} states), seed {SEED}."
    )


SECTIONS = [Section("pim-drift", False, drift)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
