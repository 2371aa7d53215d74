"""Whole kernels, drawn at random, and what they come to by the documents alone."""
