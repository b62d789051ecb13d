"""Torture with real mounts: a daemon that is killed again and again must lose nothing and leave nothing."""
