"""The engine of kernels that fit least squares: over keys, and over columns of a table."""

from .registration import FitEngine

ENGINE = FitEngine()
#: the packages of `penstock` that are this engine's alone: all else works without them
PACKAGES = ("dsl.qr", "engines.qr", "hdl.qr", "host.learned_index", "host.workloads", "models.qr")
