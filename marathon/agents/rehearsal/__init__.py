"""The rehearsal agent: a child process that documents Python functions without a model, one file per session.

It stands for a foreign program, so it shares nothing with the runner but the contract: environment, prompt, files.
"""
