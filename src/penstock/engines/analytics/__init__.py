"""The engine of kernels that learn from a table, row by row."""

from .registration import AnalyticsEngine

ENGINE = AnalyticsEngine()
#: the packages of `penstock` that are this engine's alone: all else works without them
PACKAGES = ("dsl.analytics", "engines.analytics", "hdl.analytics", "models.analytics")
