"""An ordered map over byte strings that finds keys by fitted models."""
