"""Whole language models whose recurrences run beside the banks: `penstock.LanguageModel`."""
