"""The runner: opens a task, and then reads, decides, acts and records until a human or the end stops it."""
