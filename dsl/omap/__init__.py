"""Declarations of oblivious maps: `ps.ObliviousMap(...)`."""
