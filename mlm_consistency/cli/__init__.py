"""The commands: gin and flags in, library calls out. The only room that imports gin."""
