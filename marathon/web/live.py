"""What happens now, as server-sent events: that a task moved on, and what its session does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

_LOOK_EVERY = 0.3  # seconds
_SIGN_OF_LIFE = 50  # looks

Look = Callable[[], dict[str, Any]]  # news by their names; nothing if there are none


def stream(look: Look, ended: Callable[[], bool], every: float = _LOOK_EVERY) -> StreamingResponse:
    return StreamingResponse(_events(look, ended, every), media_type="text/event-stream")


async def _events(look: Look, ended: Callable[[], bool], every: float) -> AsyncIterator[str]:
    quiet = 0
    yield "retry: 1000\n\n"
    while not ended():
        news = await run_in_threadpool(look)
        quiet = 0 if news else quiet + 1
        for name, value in news.items():
            yield f"event: {name}\ndata: {json.dumps(value)}\n\n"
        if quiet >= _SIGN_OF_LIFE:
            quiet = 0
            yield ": still here\n\n"
        await asyncio.sleep(every)
