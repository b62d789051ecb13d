"""Deterministic simulation: seeded histories of a whole node with faults and crashes, and what must hold in them."""
