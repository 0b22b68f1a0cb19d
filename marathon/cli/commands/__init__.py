"""A file per command, loaded when it is typed."""
