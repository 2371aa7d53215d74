"""The language of `kernel`: models that are trained tuple by tuple, and their plan for the analytics engine."""
