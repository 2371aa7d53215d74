"""Verilog as people read it, from the RTLIL that Amaranth's backend writes."""

from .writer import Text, written

__all__ = ["Text", "written"]
