"""Arithmetic units; `unit.unit(op, format)` makes them all."""

from . import functions as functions  # enters its units with `unit`
