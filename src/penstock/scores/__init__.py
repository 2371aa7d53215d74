"""Scores of new rows: computed, in files, as SQL."""
