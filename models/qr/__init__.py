"""The specification of the qr engine: learned-index models refitted from a memo and the changed keys alone (docs/explanation/qr.md)."""
