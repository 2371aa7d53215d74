"""Recurrences over a state that lies in memory: `@ps.recurrence` and `recurrence name(...)`."""
