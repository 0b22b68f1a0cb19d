"""The extension's reader of logs, where a long log goes on in a new file: it misses nothing and repeats nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from marathon.core.events import Output, SessionBegan
from marathon.store.events import EventLog
from marathon.store.home import home_of
from tests.real.install import HERE, ensure_pi

READER = HERE.parents[1] / "marathon/agents/pi/extension/pi-marathon/log.ts"
# Reads on whenever it is given a line, each time from the place where another one was.
PROGRAM = """
import { createInterface } from "node:readline";
const { createJiti } = await import(process.argv[3] + "/jiti/lib/jiti.mjs");
const [reader, task, packages] = process.argv.slice(1);
const jiti = createJiti(reader, { alias: { typebox: packages + "/typebox/build/index.mjs" } });
const { Log } = await jiti.import(reader);
let log = new Log(task, 0);
for await (const line of createInterface({ input: process.stdin })) {
  const next = new Log(task, 0);
  next.position = log.position;
  log = next;
  console.log(JSON.stringify([...log.read()].map((event) => event.text ?? event.type)));
}
"""


def test_what_is_read_goes_on_where_a_log_goes_on(tmp_path: Path) -> None:
    node = ensure_pi().node
    task = tmp_path / "task"
    task.mkdir()
    log, read = EventLog(part=2000), []
    path = home_of(task) / "runs/001/events/001.jsonl"
    path.parent.parent.mkdir(parents=True)
    pipe = subprocess.PIPE
    argv = [str(node), "--input-type=module", "-e", PROGRAM, str(READER), str(task), str(HERE / "node_modules")]
    with subprocess.Popen(argv, cwd=HERE, stdin=pipe, stdout=pipe, text=True) as reader:

        def more() -> list[str]:
            assert reader.stdin
            assert reader.stdout
            print(file=reader.stdin, flush=True)
            found: list[str] = json.loads(reader.stdout.readline())
            return found

        read += more()
        log(SessionBegan(1, 1, "research", "command", log=str(path)))
        for number in range(60):
            log(Output("out", str(number)))
            if number % 7 == 0:
                read += more()
        log(SessionBegan(1, 2, "research", "command", log=str(path.with_name("002.jsonl"))))
        log.close()
        read += more()
    assert len(list(path.parent.iterdir())) > 3
    assert read == ["session_began", *map(str, range(60)), "session_began"]
