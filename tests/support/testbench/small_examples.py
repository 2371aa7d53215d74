"""The examples, made small enough for simulators of Verilog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "KERNELS", "small"]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
#: how each example's kernel is made small: options of `compile`, and a window of fewer bytes (one of 32 takes Icarus minutes)
KERNELS: dict[str, dict[str, Any]] = {
    "attention.py:attend": {"dims": {"t": 32, "d": 32}},
    "attention.py:attention": {"dims": {"t": 32, "k": 32, "v": 32}},
    "attention.py:decoding": {"dims": {"t": 32, "k": 32, "v": 32}},
    "attention.py:score": {"dims": {"t": 32, "d": 32}},
    "biased_lrmf.py": {"dims": {"m": 8, "n": 8, "k": 2}},
    "closed_form.py": {"dims": {"d": 3}},
    "count_min.py": {"dims": {"n": 16}},
    "deltanet.py": {"dims": {"k": 32, "v": 32}},
    "embedding_bags.py": {"dims": {"n": 8, "k": 2, "d": 2}},
    "factorisation_machine.py": {"dims": {"n": 8, "k": 2, "fields": 3}},
    "gated_deltanet.py": {"dims": {"k": 32, "v": 32}},
    "gla.py": {"dims": {"k": 32, "v": 32}},
    "group_by.py": {"dims": {"n": 8}},
    "hgrn2.py": {"dims": {"k": 32, "v": 32}},
    "kmeans.py": {"dims": {"d": 2, "k": 2}},
    "linear.py": {"dims": {"d": 3}},
    "logistic.py": {"dims": {"d": 4}, "format": "fixed:8,8"},
    "lrmf.py": {"dims": {"m": 8, "n": 8, "k": 2}},
    "mamba2.py": {"dims": {"n": 32, "p": 32}},
    "mlp.py": {"dims": {"d": 3, "h": 2}},
    "mlstm.py": {"dims": {"k": 32, "v": 32}},
    "naive_bayes.py": {"dims": {"k": 2, "n": 8, "cells": 16}},
    "rank_model.py:rank_model": {"window": 4},
    "rank_model.py:slots": {"window": 8},
    "retnet.py": {"dims": {"k": 32, "v": 32}},
    "ridge.py": {"dims": {"d": 3}},
    "rwkv6.py": {"dims": {"k": 32, "v": 32}},
    "rwkv7.py": {"dims": {"k": 32, "v": 32}},
    "skip_gram.py": {"dims": {"n": 8, "k": 2}},
    "svm.py": {"dims": {"d": 3}},
    "zamba2.py": {},
}


def small(where: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Return an example's kernel, and the options of `compile`.

    Parameters: `where`: an entry of `KERNELS`; `folder`: where the example is written if its text changes.
    """
    options, kernel = dict(KERNELS[where]), EXAMPLES / where
    if narrow := options.pop("window", None):
        file = where.partition(":")[0]
        text = (EXAMPLES / file).read_text().replace("window(key, 32)", f"window(key, {narrow})")
        (folder / file).write_text(text)
        kernel = folder / where
    return str(kernel), options
