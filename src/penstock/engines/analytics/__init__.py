"""The engine of kernels that learn from a table, row by row."""

from .registration import AnalyticsEngine

ENGINE = AnalyticsEngine()
