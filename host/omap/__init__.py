"""Oblivious maps in Python: `ObliviousMap` is a MutableMapping on any backend, here or over the network."""

from .backends import MapStopped
from .mapping import ObliviousMap
from .session import MessageChanged

__all__ = ["MapStopped", "MessageChanged", "ObliviousMap"]
