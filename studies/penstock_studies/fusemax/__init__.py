"""FuseMax (MICRO 2024): attention in one pass over the keys, as a cascade of Einsums."""
