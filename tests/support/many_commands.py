"""Types many command lines, each in a fork of one Python that has imported everything: an agent may try a lot.

sys.argv: a JSON file of {name: [arguments]}, the file for {name: [exit code, what it said]}, and whether to hide first:
"here", or "gone", as a daemon that no process of the session is the parent of.
"""

import json
import os
import pathlib
import sys

from marathon.cli.main import main
from marathon.process import tree  # noqa: F401 - what every one of them loads

commands = json.loads(pathlib.Path(sys.argv[1]).read_text())
answers, how = sys.argv[2], sys.argv[3]
if how == "gone":
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
found = {}
for name, args in commands.items():
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        for fd in (1, 2):
            os.dup2(into, fd)
        if not os.isatty(0):
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(out)
        sys.argv = ["pi-marathon", *args]
        main(args)
    os.close(into)
    with open(out, "rb") as said:
        text = said.read().decode("utf-8", "replace")
    found[name] = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text]
with open(f"{answers}.tmp", "w") as file:
    json.dump(found, file)
os.rename(f"{answers}.tmp", answers)
