"""An engine of another distribution: sums words that one port reads, and writes the sum on another.

It is what `tests/penstock/engines/test_outside_engine.py` installs beside Penstock, and what CONTRIBUTING
("How to add an engine") is tried with.
"""
