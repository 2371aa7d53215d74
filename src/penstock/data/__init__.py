"""Tables that designs run on."""
