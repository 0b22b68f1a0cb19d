"""The page: the same tasks, gates and offers as on the terminal, in a browser on this machine."""
