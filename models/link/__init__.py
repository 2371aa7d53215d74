"""The host link: frames, the golden device, and timing (contract C1: `hdl.link` equals these)."""
