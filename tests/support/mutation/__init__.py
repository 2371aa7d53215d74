"""What tests/mutants.py is made of: the kinds of mutants, copies to plant them in, and which tests execute a line."""
