"""Suites that every implementation of a protocol must pass."""
