"""The rig: a real Kubernetes control plane on the loopback of this machine, for tests and for trying things out."""
