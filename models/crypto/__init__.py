"""Ciphers, hashes and key agreement: what is computed, to the bit, and in how many cycles."""
