"""The rehearsal agent: a child process that does a small, real job without a model.

It gives the public functions of a Python project a docstring, one file per session. It stands for a foreign program,
so it shares nothing with the runner but the contract: environment, prompt, files.
"""
