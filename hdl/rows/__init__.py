"""Models that are tables: hardware that fetches their rows and writes them back. No engine is named here."""
