"""The commands: parse, build the parts, call, and turn errors into sentences and exit codes."""
