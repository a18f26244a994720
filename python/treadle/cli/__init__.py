"""The command line: a module a command, each with a Typer object called ``app``."""
