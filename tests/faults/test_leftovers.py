"""What a kill or a power cut leaves beside the journal is put in order by the next start."""

from __future__ import annotations

import json
import os
import time

from tests.support.forked import world as world
from tests.support.world import World, plan, research


def test_files_that_were_being_written_are_swept_and_torn_ones_written_again(world: World) -> None:
    world.script(research(), plan())
    assert world.run("--auto-approve", "--max-iterations", "2").returncode == 4
    own = world.task / ".marathon"
    files = sorted((own / "runs/001/iterations").iterdir())
    whole = [path.read_text() for path in files]
    assert len(files) == 2
    files[0].write_text(whole[0][:40])
    files[1].write_bytes(b"")
    halves = [
        own / ".summary.json.0123456789ab.tmp",
        own / "runs/001/.summary.md.0123456789ab.tmp",
        own / "runs/001/iterations/.002.json.0123456789ab.tmp",
    ]
    for path in halves:
        path.write_text("{half")
    (own / "inbox").mkdir(exist_ok=True)
    being_sent = own / "inbox/.00000000000000000001-abcd.json.0123456789ab.tmp"
    being_sent.write_text("{half")
    assert world.run("--max-iterations", "2").returncode == 4
    assert [path for path in halves if path.exists()] == []
    assert [path.read_text() for path in files] == whole
    assert json.loads(files[0].read_text())["phase"] == "research"
    assert being_sent.exists(), "another shell may be writing it"
    old = time.time() - 7200
    left, state = [being_sent, own / "code.git/.last-gate.0123456789ab.tmp"], world.home / ".local/state/pi-marathon"
    places = (state, *(state / name for name in ("agreed", "codes", "index", "background")), world.states)
    for place in (*places, next((state / "tasks").iterdir())):
        place.mkdir(parents=True, exist_ok=True)
        left.append(place / ".some.json.0123456789ab.tmp")
    kept = [place / ".some.json.ab0123456789.tmp" for place in places]
    others = [state / "codes/.notes.tmp", world.task / ".mine.0123456789ab.tmp"]
    for path in (*left, *kept, *others):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{half")
    for path in (*left, *others):
        os.utime(path, (old, old))
    assert world.run("--max-iterations", "2").returncode == 4
    assert [path for path in left if path.exists()] == []
    assert [path for path in (*kept, *others) if not path.exists()] == []
