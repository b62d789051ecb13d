"""Attaching volumes to nodes, and detaching them."""
