"""The audit of a root directory: what lies there, whose it was, and what may safely be done about it."""
