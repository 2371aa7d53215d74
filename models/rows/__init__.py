"""Models that are tables: rows are read and changed one by one. No engine is named here."""
