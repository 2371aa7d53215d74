"""What Pimba (MICRO 2025) printed or drew. Bars were read off the vector figures: about ± 0.02.

Keys are names of `shapes.MODELS`; rows are batches of 32, 64 and 128 where a figure has all three.
"""

from __future__ import annotations

__all__ = [
    "ATTENTION_LATENCY",
    "BATCHES",
    "ENERGY",
    "NEUPIMS",
    "NEUPIMS_TOKENS",
    "SYSTEMS",
    "THROUGHPUT",
    "THROUGHPUT_H100",
    "UPDATE_LATENCY",
    "UPDATE_SPEEDUP",
]

BATCHES = (32, 64, 128)
#: the systems that stand beside a plain GPU
SYSTEMS = ("GPU+Q", "GPU+PIM", "Pimba")

_Bars = dict[str, tuple[tuple[float, ...], ...]]

#: figure 12: tokens a second, GPU (A100) = 1: for each batch GPU+Q, GPU+PIM, Pimba
THROUGHPUT: _Bars = {
    "retnet-2.7b": ((1.27, 1.21, 1.62), (1.41, 1.31, 2.15), (1.59, 1.43, 3.06)),
    "gla-2.7b": ((1.21, 1.24, 1.47), (1.28, 1.22, 1.65), (1.44, 1.33, 2.26)),
    "hgrn2-2.7b": ((1.09, 1.04, 1.18), (1.16, 1.07, 1.34), (1.27, 1.10, 1.62)),
    "mamba2-2.7b": ((1.21, 1.09, 1.45), (1.34, 1.13, 1.82), (1.49, 1.16, 2.39)),
    "zamba2-7b": ((1.36, 1.46, 1.79), (1.51, 1.63, 2.27), (1.68, 1.86, 3.04)),
    "opt-7b": ((1.58, 1.87, 2.54), (1.71, 2.07, 3.16), (1.85, 2.32, 4.06)),
    "retnet-70b": ((1.37, 1.55, 2.03), (1.51, 1.82, 2.75), (1.58, 1.71, 3.18)),
    "gla-70b": ((1.39, 1.88, 2.19), (1.36, 1.54, 2.00), (1.48, 1.76, 2.57)),
    "hgrn2-70b": ((1.08, 1.07, 1.15), (1.13, 1.12, 1.27), (1.19, 1.18, 1.42)),
    "mamba2-70b": ((1.15, 1.11, 1.32), (1.24, 1.16, 1.55), (1.35, 1.22, 1.90)),
    "zamba2-70b": ((1.20, 1.26, 1.41), (1.27, 1.32, 1.57), (1.38, 1.45, 1.89)),
    "opt-70b": ((1.37, 1.60, 1.86), (1.46, 1.68, 2.10), (1.59, 1.91, 2.61)),
}

#: figure 16: the same for 70 billion parameters on H100
THROUGHPUT_H100: _Bars = {
    "retnet-70b": ((1.43, 1.77, 2.33), (1.39, 1.35, 2.06), (1.51, 1.45, 2.61)),
    "gla-70b": ((1.43, 2.07, 2.41), (1.39, 1.70, 2.17), (1.34, 1.31, 1.87)),
    "hgrn2-70b": ((1.08, 1.09, 1.17), (1.14, 1.15, 1.29), (1.16, 1.13, 1.34)),
    "mamba2-70b": ((1.17, 1.16, 1.38), (1.24, 1.16, 1.54), (1.33, 1.22, 1.83)),
    "zamba2-70b": ((1.16, 1.18, 1.30), (1.25, 1.28, 1.50), (1.35, 1.41, 1.79)),
    "opt-70b": ((1.30, 1.42, 1.63), (1.43, 1.62, 2.01), (1.55, 1.82, 2.43)),
}

#: figure 5, batch 128: state updates a second, A100 = 1: time-multiplexed and pipelined units of fp16, one a bank
UPDATE_SPEEDUP = {
    "retnet-2.7b": (3.15, 4.71),
    "gla-2.7b": (3.15, 4.71),
    "hgrn2-2.7b": (2.58, 4.47),
    "mamba2-2.7b": (2.55, 3.81),
    "zamba2-7b": (2.57, 3.88),
}

#: figure 13: how many times faster than (GPU, GPU+PIM), averaged geometrically over 70 billion parameters and batches
UPDATE_LATENCY = (14.6, 6.9)
ATTENTION_LATENCY = (6.3, 2.1)

#: figure 14, 70 billion parameters, batch 128: energy of GPU+Q, GPU+PIM, Pimba, GPU = 1
ENERGY = {
    "retnet-70b": (0.66, 0.49, 0.35),
    "gla-70b": (0.73, 0.60, 0.49),
    "hgrn2-70b": (0.85, 0.77, 0.71),
    "mamba2-70b": (0.72, 0.60, 0.48),
    "zamba2-70b": (0.72, 0.59, 0.49),
    "opt-70b": (0.64, 0.47, 0.35),
}

#: figure 15, zamba2-70b, batch 128, prompt of 1,024: milliseconds of token 1, 256, …, and gigabytes a device
NEUPIMS_TOKENS = (1, 256, 512, 768, 1024)
NEUPIMS = {
    "NeuPIMs": ((56.0, 56.7, 57.5, 59.2, 60.1), (51.5, 57.6, 63.8, 69.9, 76.0)),
    "Pimba": ((52.1, 52.8, 53.5, 54.2, 54.9), (34.5, 37.6, 40.6, 43.7, 46.8)),
}
