"""The command line and the one place where things are put together."""
