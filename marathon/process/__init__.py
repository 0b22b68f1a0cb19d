"""Start, stream and stop a child and its whole tree; hand the terminal over and take it back."""
