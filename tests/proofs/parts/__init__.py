"""The proofs, by part."""
