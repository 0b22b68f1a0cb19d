"""pi-marathon: lets a coding agent work for hours on one task, in phases, with a human at the gates."""

__version__ = "0.1.0"
