"""The `tram` command, one file per group of subcommands."""
