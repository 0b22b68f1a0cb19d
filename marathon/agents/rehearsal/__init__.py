"""The rehearsal agent: a real child process that does a small real job without a model.

It documents a Python project's public functions and adds a test, in the phases of a marathon. It stands for a foreign
program, so it shares nothing with the runner but the contract: environment, prompt, files.
"""
