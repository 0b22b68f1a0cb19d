"""Events and records as lines a person reads."""
