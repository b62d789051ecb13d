"""`python -m mooring` is the `mooring` command."""

from mooring.daemon.command_line import main

main()
