"""What every engine is: a registration, the designs that it compiles, the workloads they run."""

from .design import Design
from .registration import Engine
from .session import Session
from .workload import AssumedRows, Bound, Cycles, Given, Result, Workload

__all__ = [
    "AssumedRows",
    "Bound",
    "Cycles",
    "Design",
    "Engine",
    "Given",
    "Result",
    "Session",
    "Workload",
]
