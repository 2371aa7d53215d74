"""The engine of kernels that learn from a table, row by row."""

from .engine import AnalyticsEngine

ENGINE = AnalyticsEngine()
