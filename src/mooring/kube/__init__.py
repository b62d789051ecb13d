"""Kubernetes vocabulary: objects, manifests, the API protocol, the local store and informers."""
