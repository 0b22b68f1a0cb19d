"""The hours in which sessions may start, such as 20:00-07:00, on the clock of this wall."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

_HOURS = re.compile(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)")


def parse_hours(text: str) -> tuple[time, time] | None:
    """When they begin and end. None if the text says no hours; the end may be on the next day."""
    match = _HOURS.fullmatch(text.strip())
    if match is None:
        return None
    begin, end = (int(match[1]), int(match[2])), (int(match[3]), int(match[4]))
    end = (0, 0) if end == (24, 0) else end
    if max(begin[0], end[0]) > 23 or max(begin[1], end[1]) > 59 or begin == end:
        return None
    return time(*begin), time(*end)


def opens_at(hours: str, local: datetime) -> datetime | None:
    """When they begin next. None: it is one of them now."""
    parsed = parse_hours(hours)
    if parsed is None:
        return None
    (begin, end), now = parsed, local.time()
    inside = begin <= now < end if begin < end else now >= begin or now < end
    return None if inside else datetime.combine(local.date() + timedelta(days=now > begin), begin)
