"""What a control plane does around the node: binding claims, protecting what is in use."""
