"""What git knows of a project. Only this room calls git for the runner."""
