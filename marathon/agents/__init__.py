"""Agents: how each is started and how its end is read, a small file each."""
