"""Courses decide how a task continues. The first course follows the phases of a workflow."""
