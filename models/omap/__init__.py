"""The oblivious map: configuration, protocol, ciphers, failure budget and exact cycles."""
