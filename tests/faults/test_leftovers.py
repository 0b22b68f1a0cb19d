"""What a kill or a power cut leaves beside the journal is put in order by the next start."""

from __future__ import annotations

import json

from tests.runner.conftest import forks as forks
from tests.runner.conftest import world as world
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
