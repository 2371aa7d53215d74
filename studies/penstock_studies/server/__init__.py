"""What state-update units beside DRAM banks are worth to a server of language models: an analytical
model of GPUs, memories and twelve model shapes. Nothing here is simulated or measured on hardware.
"""

from .assumptions import HONEST, PUBLISHED, Assumptions
from .serving import OURS, Breakdown, System, serve, systems
from .shapes import MODELS, ModelShape

__all__ = [
    "HONEST",
    "MODELS",
    "OURS",
    "PUBLISHED",
    "Assumptions",
    "Breakdown",
    "ModelShape",
    "System",
    "serve",
    "systems",
]
