"""The running volume manager: populator, executor, reconstruction, waits."""
