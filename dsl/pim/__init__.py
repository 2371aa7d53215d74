"""Recurrences over a state: `@ps.recurrence`."""
