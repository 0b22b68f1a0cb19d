"""A file per group of commands, loaded when one of them is typed."""
