"""Shipped test parts: an in-memory host, virtual time, seeded histories, conformance suites."""
