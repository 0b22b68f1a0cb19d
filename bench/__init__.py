"""Measures what a user waits for, against the bars of the project; only the command line and files are used."""
