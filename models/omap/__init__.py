"""The oblivious map: configuration, protocol, failure budget and exact cycles."""
