"""How long answers take on a line: a smoothed time and its variation, as RFC 6298 (2) has them."""

from dataclasses import dataclass


@dataclass
class RoundTrip:
    """Seconds from requests to their answers. Answers to what was sent twice say nothing about them (Karn's algorithm)."""

    smoothed: float = 0.0  #: 0 before the first answer
    variation: float = 0.0

    def add(self, took: float) -> None:
        if not self.smoothed:
            self.smoothed, self.variation = took, took / 2
        self.variation += (abs(took - self.smoothed) - self.variation) / 4
        self.smoothed += (took - self.smoothed) / 8

    @property
    def late(self) -> float:
        """After so many seconds an answer is late."""
        return self.smoothed + 4 * self.variation
