"""Measured loops (lanes). Pure rules for what is kept, and the records that they are kept in."""
