"""Volume types, one file each."""
