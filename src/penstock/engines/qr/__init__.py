"""The engine of kernels that fit least squares: over keys, and over columns of a table."""

from .registration import FitEngine

ENGINE = FitEngine()
