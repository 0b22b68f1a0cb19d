"""What git knows of a project, and the only place that calls it for the runner."""
