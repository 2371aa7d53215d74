"""Number formats, their arithmetic, and the depth and cost of its units."""

from . import functions as functions  # enters its operations with `formats` and `latency`
