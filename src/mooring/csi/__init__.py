"""The Container Storage Interface: volumes that drivers serve."""
