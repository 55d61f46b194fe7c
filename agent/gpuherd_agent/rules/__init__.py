"""Hazards, one a file: pure functions from readings to findings."""
