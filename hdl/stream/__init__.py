"""Streams: parts that every engine needs, all of which keep the four transfer rules of Amaranth's stream documentation."""

from .monitor import monitor_shape, observe
from .passing import passed_on
from .queue import Buffer, Queue, Spare

__all__ = ["Buffer", "Queue", "Spare", "monitor_shape", "observe", "passed_on"]
