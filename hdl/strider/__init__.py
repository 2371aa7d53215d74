"""Striders: components that walk heap pages and give out tuples."""

from .pipeline import StriderPipeline
from .strider import Strider

__all__ = ["Strider", "StriderPipeline"]
