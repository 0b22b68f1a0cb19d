"""An agent that does what a script says: the n-th session carries out the n-th entry of agent/script.json.

An entry may hold: say (lines to print), write / append (file name in the task directory -> text), touch (project file),
state (an object, or a string written as it is), wait ([minutes, reason]), ask (question), run (shell command),
hold (wait until agent/go-N exists), exit (code), kill (signal to itself). The last entry repeats.
Keeps each session's prompt and environment in agent/prompt-N and agent/env-N.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

here = pathlib.Path(sys.argv[1])
task = pathlib.Path(os.environ["MARATHON_TASK_DIR"])
number = len(list(here.glob("prompt-*"))) + 1
(here / f"prompt-{number}.tmp").write_bytes(sys.stdin.buffer.read() if not sys.stdin.isatty() else b"")
(here / f"prompt-{number}.tmp").rename(here / f"prompt-{number}")
(here / f"env-{number}").write_text(json.dumps(dict(os.environ)))
script = json.loads((here / "script.json").read_text())
entry = script[min(number, len(script)) - 1]

for line in entry.get("say", []):
    print(line, flush=True)
for name, text in entry.get("write", {}).items():
    (task / name).write_text(text.replace("{n}", str(number)))
for name, text in entry.get("append", {}).items():
    with (task / name).open("a") as file:
        file.write(text.replace("{n}", str(number)))
if "touch" in entry:
    pathlib.Path(entry["touch"]).write_text(f"session {number}\n")
if "run" in entry:
    subprocess.run(["sh", "-c", entry["run"]], check=False)
if "state" in entry:
    state = entry["state"]
    if isinstance(state, dict):
        state = json.dumps({"iteration": number, "updatedAt": "2026-02-02T14:30:00Z", "note": None, **state})
    (task / "STATE.json").write_bytes(state.encode("utf-8", "surrogatepass"))
if "wait" in entry:
    subprocess.run([sys.executable, "-P", "-m", "marathon", "wait", *map(str, entry["wait"])], check=True)
if "ask" in entry:
    subprocess.run([sys.executable, "-P", "-m", "marathon", "ask", entry["ask"]], check=True)
if entry.get("hold"):
    (here / f"holding-{number}").touch()
    while not (here / f"go-{number}").exists():
        time.sleep(0.02)
if "kill" in entry:
    os.kill(os.getpid(), getattr(signal, entry["kill"]))
sys.exit(entry.get("exit", 0))
