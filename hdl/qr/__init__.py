"""The qr engine."""
