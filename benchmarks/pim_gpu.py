"""Mamba-2 on a GPU by its authors' own code: the logits of a checkpoint, and the time of state updates.

    python benchmarks/pim_gpu.py FOLDER…

Each FOLDER holds a Mamba-2 as benchmarks/pim_checkpoints.py writes it, with the logits of `transformers`. `mamba_ssm` gets its tensors under its own
names; printed is how far its logits are from those. Then its kernel `selective_state_update` runs tokens one after the other, as a recorded graph: no
call from the host lies between two of them. The same shapes as beside the C core. Needs a GPU, PyTorch with CUDA, Triton, transformers, einops,
safetensors, and the sources of mamba_ssm on PYTHONPATH; its CUDA parts, which Mamba-2 does not use, are not built.
"""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

#: heads, keys, values, requests; how many tokens a graph has, and how often it is timed
SHAPES = ((4, 64, 64, 1), (4, 128, 128, 1), (4, 256, 256, 1), (32, 128, 64, 1), (32, 128, 64, 64))
TOKENS, REPEATS = 64, 20


def authors() -> Any:
    """Return the modules of `mamba_ssm` that Mamba-2 needs, without those that its first version compiles."""
    for root in map(Path, sys.path):
        if (root / "mamba_ssm").is_dir():
            package = types.ModuleType("mamba_ssm")
            package.__path__ = [str(root / "mamba_ssm")]
            sys.modules |= {"mamba_ssm": package}
            break
    generation = types.ModuleType("mamba_ssm.utils.generation")
    generation.GenerationMixin = type("GenerationMixin", (), {})  # type: ignore[attr-defined]
    sys.modules |= {
        "mamba_ssm.utils.generation": generation,
        "selective_scan_cuda": types.ModuleType("selective_scan_cuda"),
    }
    import mamba_ssm.models.config_mamba
    import mamba_ssm.models.mixer_seq_simple
    import mamba_ssm.ops.triton.selective_state_update

    return mamba_ssm


def logits(package: Any, folder: Path) -> None:
    # transformers writes what JSON has no number for as {"__float__": "Infinity"}
    plain = lambda given: given.get("__float__", given)
    config = json.loads((folder / "config.json").read_text(), object_hook=plain)
    ssm = {
        "layer": "Mamba2",
        "d_state": config["state_size"],
        "headdim": config["head_dim"],
        "ngroups": config["n_groups"],
        "chunk_size": config["chunk_size"],
        "dt_limit": tuple(float(given) for given in config["time_step_limit"]),
        "use_mem_eff_path": False,
    }
    made = package.models.config_mamba.MambaConfig(
        d_model=config["hidden_size"], n_layer=config["num_hidden_layers"], vocab_size=config["vocab_size"], ssm_cfg=ssm,
        pad_vocab_size_multiple=1, tie_embeddings=config["tie_word_embeddings"],
    )  # fmt: skip
    model = package.models.mixer_seq_simple.MambaLMHeadModel(made, device="cuda").eval()
    tensors = load_file(folder / "model.safetensors")
    named = {name.replace("embeddings", "embedding"): tensor for name, tensor in tensors.items()}
    named.setdefault("lm_head.weight", named["backbone.embedding.weight"])
    model.load_state_dict(named)
    found, begin, worst = np.load(folder / "check.npz"), 0, 0.0
    for end in found["ends"].tolist():
        ids = torch.tensor([found["ids"][begin:end].tolist()], device="cuda")
        with torch.no_grad():
            own = model(ids).logits[0].float().cpu().numpy()
        given = found["logits"][begin:end]
        worst = max(worst, float(np.abs(own - given).max() / np.abs(given).max()))
        begin = end
    print(f"{folder.name}: {worst:.1e} of the largest logit")


def updates(package: Any, heads: int, keys: int, values: int, requests: int, dtype: Any) -> float:
    """Return the microseconds of TOKENS updates, one after the other."""
    update = package.ops.triton.selective_state_update.selective_state_update
    some = {"device": "cuda", "dtype": dtype}
    state = torch.zeros(requests, heads, values, keys, **some)
    x = torch.randn(requests, heads, values, **some)
    b, c = (torch.randn(requests, 1, keys, **some) for _ in range(2))
    wide = lambda shape: torch.rand(heads, device="cuda").view(-1, *(1,) * (len(shape) - 1))
    a = -wide((heads, values, keys)).expand(heads, values, keys)
    dt = wide((heads, values)).expand(requests, heads, values).to(dtype)
    bias = wide((heads, values)).expand(heads, values)
    skip = wide((heads, values)).expand(heads, values)
    step = lambda: update(state, x, dt, a, b, c, skip, dt_bias=bias, dt_softplus=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TOKENS):
            step()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end))
    return min(times)


def main() -> None:
    os.environ["TRITON_F32_DEFAULT"] = "ieee"  # products of float32 in float32
    torch.manual_seed(1)
    package = authors()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for folder in map(Path, sys.argv[1:]):
        logits(package, folder)
    print(f"{TOKENS} tokens, µs          float32   float16")
    for shape in SHAPES:
        times = [updates(package, *shape, dtype) for dtype in (torch.float32, torch.float16)]
        heads, keys, values, requests = shape
        name = f"{heads} of {keys} × {values}, {requests} requests"
        print(f"{name:26}{times[0]:9.0f} {times[1]:9.0f}")


if __name__ == "__main__":
    main()
