"""Oblivious maps in Python: `ObliviousMap` is a MutableMapping on any backend."""

from .mapping import MapStopped, ObliviousMap

__all__ = ["MapStopped", "ObliviousMap"]
