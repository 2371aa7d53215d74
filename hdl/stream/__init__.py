"""Streams: parts that every engine needs, all of which keep the four transfer rules of Amaranth's stream documentation."""

from .monitor import monitor_shape, observe
from .queue import Buffer, Queue

__all__ = ["Buffer", "Queue", "monitor_shape", "observe"]
