"""Reconciling anything: a dirty set, pending operations with backoff, waiters. Knows nothing of volumes."""
