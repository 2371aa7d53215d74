"""Devices, boards, bitstreams."""
