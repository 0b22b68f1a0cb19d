"""/ralph in pi has to know which options take a value; the program is asked only when all words are told apart."""

from __future__ import annotations

import re

import click

from marathon.agents.pi.find import INSIDE
from marathon.cli.commands.repeat import repeat


def test_pi_knows_every_option_that_takes_the_next_word() -> None:
    source = INSIDE.read_text()
    found = re.search(r"TAKES_VALUE = new RegExp\((.*?)\);", source, re.S)
    assert found
    known = re.findall(r"[a-z][a-z-]*", "".join(re.findall(r'"([^"]*)"', found[1])))
    options = [param for param in repeat.params if isinstance(param, click.Option)]
    takes = {name.removeprefix("--") for option in options if not option.is_flag for name in option.opts}
    assert set(known) == takes - {"sandbox", "worktree"}
