"""One coroutine a file: what each planned operation does."""
