"""Pimba (MICRO 2025): what it printed, and what our model of its servers says."""
