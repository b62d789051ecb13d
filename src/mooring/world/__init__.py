"""Pure decisions: what is wanted, what is there, what to do next, and why not."""
