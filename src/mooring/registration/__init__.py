"""Plugin sockets: found, asked who they are, and handed to whoever serves their kind (the kubelet's PluginManager)."""
