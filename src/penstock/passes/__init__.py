"""Compiling as a list of passes: the forms of a kernel between them, their text, and the loop that runs the list."""
