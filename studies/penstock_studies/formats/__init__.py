"""Number formats that no device of Penstock has, for studies of accuracy."""
