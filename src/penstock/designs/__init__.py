"""Folders of designs, what was generated before, and whether a design can be built."""
