"""What proofs are made of: benches, methods, planted defects, traces."""

from .bench import Bench, Problem
from .defects import Defect, planted
from .directed import directed, play
from .proofs import Proof
from .solve import Verdict, decide
from .two import two_runs

__all__ = [
    "Bench",
    "Defect",
    "Problem",
    "Proof",
    "Verdict",
    "decide",
    "directed",
    "planted",
    "play",
    "two_runs",
]
