"""mooring: the Kubernetes kubelet's volume manager as software of its own."""

__version__ = "0.1.0"
