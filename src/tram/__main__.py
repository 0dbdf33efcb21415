"""`python -m tram` runs the `tram` command."""

from tram.cli.main import main

main()
