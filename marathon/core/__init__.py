"""Pure decisions: no files, no clock, no environment."""
