"""The language of `fit`: least-squares models that are fitted again, and their plan for the qr engine."""
