"""The rehearsal agent: a real child process that does a small real job in a project without a model.

Run as `python -m marathon.agents.rehearsal`; it uses only the standard library.
"""
