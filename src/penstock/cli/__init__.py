"""The command line: what commands share."""
