"""Where pods and objects come from."""
