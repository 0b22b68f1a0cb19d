"""Courses: what decides how a task goes on. Phases of a workflow first."""
