"""Pods' containers on mooring's volumes: what to start, who starts it, and the record that it was started."""
