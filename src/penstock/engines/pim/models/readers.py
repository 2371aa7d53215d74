"""Layouts of public checkpoints: which tensors make up which layers.

Mamba-2 as `transformers` writes it (`Mamba2ForCausalLM`), and as its authors do (`mamba_ssm`); RetNet and GLA as flash-linear-attention does
(`RetNetForCausalLM`, `GLAForCausalLM`). A tensor that no layer takes, and a choice that none knows, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .layers import Block, GatedMlp, Mamba2, Network, Norm, Retention
from .weights import Config, Weights, unread

_INFINITE = (0.0, float("inf"))
# what a class takes where config.json says nothing
_MAMBA2: dict[str, Any] = {
    "num_heads": 128, "head_dim": 64, "state_size": 128, "n_groups": 8, "expand": 2, "conv_kernel": 4, "layer_norm_epsilon": 1e-5,
    "use_bias": False, "use_conv_bias": True, "hidden_act": "silu", "time_step_limit": _INFINITE, "tie_word_embeddings": False,
}  # fmt: skip
_SSM: dict[str, Any] = {
    "d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1, "d_ssm": None, "D_has_hdim": False, "rmsnorm": True,
    "norm_before_gate": False, "bias": False, "conv_bias": True, "dt_limit": _INFINITE,
}  # fmt: skip
_AUTHORS: dict[str, Any] = {
    "rms_norm": True, "tie_embeddings": True, "attn_layer_idx": [], "d_intermediate": 0, "pad_vocab_size_multiple": 8,
}  # fmt: skip
_FLA: dict[str, Any] = {
    "num_kv_heads": None, "feature_map": None, "use_short_conv": False, "use_output_gate": True, "hidden_act": "swish", "fuse_norm": True,
    "elementwise_affine": True, "norm_eps": 1e-6, "attn": None, "tie_word_embeddings": False, "intermediate_size": None,
}  # fmt: skip
_RETNET = {**_FLA, "expand_k": 1.0, "expand_v": 2.0, "hidden_ratio": 2, "num_heads": 8}
_GLA = {**_FLA, "expand_k": 0.5, "expand_v": 1.0, "hidden_ratio": 4, "num_heads": 4, "clamp_min": None,
        "use_gk": True, "use_gv": False}  # fmt: skip

Reader = Callable[[Mapping[str, Any], Weights], Network]


def reader_of(values: Mapping[str, Any], place: str) -> Reader:
    """Return what reads the layers of a configuration. Raises ModelError (E468)."""
    ssm = values.get("ssm_cfg")
    if isinstance(ssm, Mapping) and "model_type" not in values:
        Config(ssm, f"{place}: ssm_cfg", {"layer": "Mamba1"}).only(layer="Mamba2")
        return _of_authors
    kind = values.get("model_type")
    readers: dict[Any, Reader] = {"mamba2": _mamba2, "retnet": _retnet, "gla": _gla}
    if not isinstance(kind, str) or kind not in readers:
        hint = f"models of {', '.join(readers)} are read, and Mamba-2 as mamba_ssm writes it"
        raise unread(f"{place}: model_type is {kind!r}", hint)
    return readers[kind]


# -- Mamba-2


def _mamba2(values: Mapping[str, Any], weights: Weights, embeddings: str = "embeddings") -> Network:
    """Mamba-2 of transformers."""
    config = Config(values, weights.place, _MAMBA2)
    config.only(use_bias=False, use_conv_bias=True, hidden_act=("silu", "swish"))
    width, eps = config.size("hidden_size"), config.number("layer_norm_epsilon", 0)
    heads, dim, state = map(config.size, ("num_heads", "head_dim", "state_size"))
    groups = config.size("n_groups")
    config.divided("num_heads", "n_groups")
    taps, limit = config.size("conv_kernel"), _limit(config)
    inner, channels = heads * dim, heads * dim + 2 * groups * state
    embedding = weights.take(f"backbone.{embeddings}.weight", config.size("vocab_size"), width)
    blocks = []
    for n in config.layers("num_hidden_layers", weights):
        start = f"backbone.layers.{n}"
        take = lambda name, *shape, at=f"{start}.mixer": weights.take(f"{at}.{name}", *shape)
        mixer = Mamba2(
            projection=take("in_proj.weight", inner + channels + heads, width),
            taps=take("conv1d.weight", channels, 1, taps)[:, 0],
            bias=take("conv1d.bias", channels),
            step_bias=take("dt_bias", heads),
            decay=np.exp(take("A_log", heads)),
            skip=take("D", heads),
            norm=Norm(take("norm.weight", inner), eps, groups),
            output=take("out_proj.weight", width, inner),
            sizes=(heads, dim, groups, state),
            limit=limit,
        )
        blocks.append(Block(Norm(weights.take(f"{start}.norm.weight", width), eps), mixer))
    last = Norm(weights.take("backbone.norm_f.weight", width), eps)
    head = weights.head("lm_head.weight", embedding, config.truth("tie_word_embeddings"))
    weights.end("Mamba-2")
    return Network(embedding, blocks, last, head, (heads, state, dim), False)


def _limit(config: Config) -> tuple[float, float]:
    """Return the least and the largest time step; transformers writes an infinity as an object."""
    limit = config.get("time_step_limit")
    try:
        low, high = (float(x["__float__"]) if isinstance(x, Mapping) else x for x in limit)
        if low <= high and {type(low), type(high)} <= {int, float}:
            return float(low), float(high)
    except (TypeError, ValueError, KeyError):
        pass
    raise unread(f"{config.place}: time_step_limit is {limit!r}", "it is two numbers")


def _of_authors(values: Mapping[str, Any], weights: Weights) -> Network:
    """Mamba-2 of mamba_ssm."""
    config = Config(values, weights.place, _AUTHORS)
    ssm = Config(values["ssm_cfg"], f"{weights.place}: ssm_cfg", _SSM)
    config.only(rms_norm=True, attn_layer_idx=[], d_intermediate=0)
    ssm.only(d_ssm=None, D_has_hdim=False, rmsnorm=True, norm_before_gate=False)
    padded = config.size("pad_vocab_size_multiple")
    sizes = {"inner": ssm.size("expand") * config.size("d_model"), "headdim": ssm.size("headdim")}
    return _mamba2(
        {
            "hidden_size": config.size("d_model"),
            "num_hidden_layers": config.size("n_layer"),
            "vocab_size": -(-config.size("vocab_size") // padded) * padded,
            "num_heads": Config(sizes, weights.place, {}).divided("inner", "headdim"),
            "head_dim": ssm.size("headdim"),
            "state_size": ssm.size("d_state"),
            "n_groups": ssm.size("ngroups"),
            "conv_kernel": ssm.size("d_conv"),
            "use_bias": ssm.get("bias"),
            "use_conv_bias": ssm.get("conv_bias"),
            "time_step_limit": ssm.get("dt_limit"),
            "tie_word_embeddings": config.get("tie_embeddings"),
        },
        weights,
        "embedding",
    )


# -- RetNet and GLA


@dataclass(frozen=True)
class _Sizes:
    """Of a model of flash-linear-attention."""

    width: int
    heads: int
    shared: int  #: heads that have the same keys and values
    keys: int
    values: int
    inner: int
    eps: float

    @classmethod
    def of(cls, config: Config) -> _Sizes:
        config.only(
            feature_map=None, use_short_conv=False, use_output_gate=True, hidden_act="swish", elementwise_affine=True, attn=None,
        )  # fmt: skip
        width, heads = config.size("hidden_size"), config.size("num_heads")
        shared = (
            1 if config.get("num_kv_heads") is None else config.divided("num_heads", "num_kv_heads")
        )
        dims = {f"hidden_size · {n}": width * config.number(n) for n in ("expand_k", "expand_v")}
        divide = Config({**dims, "num_heads": heads}, config.place, {}).divided
        keys, values = (divide(name, "num_heads") for name in dims)
        ratio = int(width * config.number("hidden_ratio") * 2 / 3)
        chosen = config.get("intermediate_size") is not None
        inner = config.size("intermediate_size") if chosen else -(-ratio // 256) * 256
        return cls(width, heads, shared, keys, values, inner, config.number("norm_eps", 0))


def _retnet(values: Mapping[str, Any], weights: Weights) -> Network:
    config = Config(values, weights.place, _RETNET)
    sizes = _Sizes.of(config)
    rates = (2.0 ** -(5.0 + np.arange(sizes.heads))).astype(weights.dtype)
    return _fla(config, sizes, weights, "RetNet", lambda start: {"rates": rates, "gates": None})


def _gla(values: Mapping[str, Any], weights: Weights) -> Network:
    config = Config(values, weights.place, _GLA)
    sizes, least = _Sizes.of(config), config.get("clamp_min")
    config.only(use_gk=True, use_gv=False)
    rank, keys = 16, sizes.heads // sizes.shared * sizes.keys

    def gates(start: str) -> dict[str, Any]:
        narrow = weights.take(f"{start}.gk_proj.0.weight", rank, sizes.width)
        wide = weights.take(f"{start}.gk_proj.1.weight", keys, rank)
        bias = weights.take(f"{start}.gk_proj.1.bias", keys)
        least_log = None if least is None else config.number("clamp_min")
        return {"rates": None, "gates": (narrow, wide, bias), "scale": 1 / 16, "least": least_log}

    return _fla(config, sizes, weights, "GLA", gates, True)


def _fla(
    config: Config,
    sizes: _Sizes,
    weights: Weights,
    family: str,
    decays: Callable[[str], dict[str, Any]],
    wide: bool = False,
) -> Network:
    width, heads, few = sizes.width, sizes.heads, sizes.heads // sizes.shared
    gated = "g_norm_swish_gate" if config.truth("fuse_norm") else "g_norm"
    norm = lambda name: Norm(weights.take(f"{name}.weight", width), sizes.eps)
    embedding = weights.take("model.embeddings.weight", config.size("vocab_size"), width)
    blocks = []
    for n in config.layers("num_hidden_layers", weights):
        at, mlp = f"model.layers.{n}.attn", f"model.layers.{n}.mlp"
        mixer = Retention(
            query=weights.take(f"{at}.q_proj.weight", heads * sizes.keys, width),
            key=weights.take(f"{at}.k_proj.weight", few * sizes.keys, width),
            value=weights.take(f"{at}.v_proj.weight", few * sizes.values, width),
            gate=weights.take(f"{at}.g_proj.weight", heads * sizes.values, width),
            output=weights.take(f"{at}.o_proj.weight", width, heads * sizes.values),
            norm=Norm(weights.take(f"{at}.{gated}.weight", sizes.values), sizes.eps),
            heads=heads,
            **decays(at),
        )
        after = GatedMlp(
            norm(f"model.layers.{n}.mlp_norm"),
            weights.take(f"{mlp}.gate_proj.weight", sizes.inner, width),
            weights.take(f"{mlp}.up_proj.weight", sizes.inner, width),
            weights.take(f"{mlp}.down_proj.weight", width, sizes.inner),
        )
        blocks.append(Block(norm(f"model.layers.{n}.attn_norm"), mixer, after))
    last = norm("model.norm")
    head = weights.head("lm_head.weight", embedding, config.truth("tie_word_embeddings"))
    weights.end(family)
    return Network(embedding, blocks, last, head, (heads, sizes.keys, sizes.values), wide)
