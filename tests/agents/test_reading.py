"""What a provider's error means: try again, wait as long as the provider says, or fetch a human."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.agents.base import failed_outcome
from marathon.agents.pi.reading import pi_failure
from marathon.agents.reading import LONGEST_WAIT, failure_of


def error(status: int, message: str = "It failed", **body: Any) -> str:
    """As pi 0.87.1 writes it: the status, and the error object of the response's body."""
    return f"{status}: {json.dumps({'message': message, **body})}"


@pytest.mark.parametrize(
    ("message", "permanent"),
    [
        (error(429, type="rate_limit_exceeded", code="rate_limit_exceeded"), False),
        (error(429, type="insufficient_quota", code="insufficient_quota"), True),
        (error(429, code="billing_error"), True),
        (error(500, type="server_error"), False),
        (error(503), False),
        (error(529, type="overloaded_error"), False),
        (error(400, type="invalid_request_error"), True),
        (error(400, type="context_length_exceeded", code="context_length_exceeded"), False),
        (error(401, type="invalid_api_key", code="invalid_api_key"), True),
        (error(402), True),
        (error(403, type="permission_error"), True),
        (error(404, type="model_not_found"), True),
        (error(408), False),
        ('401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}', True),
        ('529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', False),
        ('{"error":{"code":"invalid_api_key","message":"no"}}', True),
        ("terminated", False),
        ("Request timed out.", False),
        ("Stream ended without finish_reason", False),
        ("Connection error.", False),
        ("fetch failed", False),
        ("404 page not found", True),
        ("500 status code (no body)", False),
        ("the answer to 401 was invalid_api_key", False),
        ("", False),
    ],
)
def test_what_trying_again_cannot_fix_is_told_from_what_it_can(message: str, permanent: bool) -> None:
    assert failure_of(message).permanent is permanent


def test_pi_without_a_key_needs_a_human() -> None:
    assert pi_failure("No API key for provider: openai").permanent
    assert pi_failure(error(401, "Wrong key")).permanent
    assert not pi_failure("terminated").permanent


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (error(429, "Rate limit reached"), "429: Rate limit reached"),
        ('401 {"error":{"message":"invalid x-api-key"}}', "401: invalid x-api-key"),
        ("terminated", "terminated"),
        ("500 status code (no body)", "500 status code (no body)"),
        (error(500, "evil\x1b[2J\n\n  words"), "500: evil words"),
        ("500: {", "500: {"),
        ("500: [1, 2]", "500: [1, 2]"),
        ('500: {"message": null}', '500: {"message": null}'),
    ],
)
def test_the_message_is_what_the_provider_said_on_one_line(message: str, shown: str) -> None:
    assert failure_of(message).message == shown


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-proj-****MxYA. You can find your API key at https://platform.openai.com/.",
        "invalid x-api-key",
        "Authentication Fails, Your api key: ****da05 is invalid",
        "API key not valid. Please pass a valid API key.",
        '400: {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "X"}}',
        "Unauthorized: API key is invalid or missing.",
        "No cookie auth credentials found",
        "Missing Authentication header",
        "User not found.",
        "Invalid Authentication",
        "You didn't provide an API key. You need to provide your API key in an Authorization header.",
        "OAuth token has expired. Please obtain a new token or refresh your existing token.",
        "token expired or incorrect",
        "Your access token could not be refreshed. Please log out and sign in again.",
        "Token refresh failed: 401",
    ],
)
def test_a_key_that_is_not_taken_is_known_by_the_words_of_each_provider(said: str) -> None:
    """opencode hands these on without a status."""
    found = failure_of(said)
    assert (found.kind, found.permanent) == ("login", True)


@pytest.mark.parametrize(
    "said", ["1 failed: test_login: user not found", "the api key field is required", "invalid token '}' in line 3"]
)
def test_words_about_the_work_are_no_wrong_key(said: str) -> None:
    assert failure_of(said).kind == "transient"


def test_a_very_long_message_is_cut() -> None:
    assert len(failure_of(error(500, "x" * 100_000)).message) < 400
    assert len(failure_of("x" * 100_000).message) < 400


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (error(429, retry_after=7), 7),
        (error(429, retry_after_seconds=1.5), 1.5),
        (error(429, type="usage_limit", resets_in_seconds=1800), 1800),
        (error(429, reset_after_seconds=60), 60),
        (error(429, "Please try again in 20s."), 20),
        (error(429, "Please try again in 200ms. Visit us."), 0.2),
        (error(429, "Please try again in 20 milliseconds"), 0.02),
        (error(429, "Please try again in 6m0s."), 360),
        (error(429, "Please try again in 1h12m30.5s."), 4350.5),
        (error(429, "Your limit resets in 2 hours, 5 minutes."), 7500),
        (error(429, "Please retry after 3 seconds"), 3),
        (error(429, "Try again in 2 days 3 hours and 5 minutes."), 183_900),
        ("You have hit your ChatGPT usage limit (plus plan). Try again in ~45 min.", 2700),
        (error(429, "Please try again in 20s.", retry_after=7), 7),
        (error(429, "Please try again later."), None),
        (error(429, "You may retry after 5 more attempts"), None),
        (error(429, "It took 20s; try again."), None),
        (error(429, retry_after="soon"), None),
        (error(429, retry_after=True), None),
        (error(429, retry_after=0), None),
        (error(429, retry_after=-5), None),
        (error(429, retry_after=None), None),
        (error(429, retry_after=[5]), None),
        (error(429, retry_after=float("nan")), None),
        (error(401, "Please try again in 20s."), None),
        ("terminated", None),
    ],
)
def test_the_time_a_provider_states_is_waited_for(message: str, seconds: float | None) -> None:
    assert failure_of(message).retry_after == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("key", "ahead", "waits"), [("resets_at", 90, 90), ("reset_at", 5, 5), ("resets_at", -1, None)]
)
def test_a_stated_moment_is_waited_for_unless_it_is_over(key: str, ahead: float, waits: float | None) -> None:
    now = 1_790_000_000.0
    body: dict[str, Any] = {key: now + ahead}
    assert failure_of(error(429, **body), now).retry_after == waits


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("You've hit your 5-hour limit · resets 5:30am (UTC)", "2026-11-19T05:31Z"),
        ("You've hit your limit · resets 3pm (UTC)", "2026-11-18T15:01Z"),
        ("resets 12am (UTC)", "2026-11-19T00:01Z"),
        ("resets 12:15pm (UTC)", "2026-11-18T12:16Z"),
        ("resets 5:30am (America/New_York)", "2026-11-18T10:31Z"),
        ("Visit the page or try again at 3:29 PM.", "2026-11-18T15:30Z"),
        ("try again at Nov 19th, 4:05 AM", "2026-11-19T04:06Z"),
        ("try again at Nov 18th, 2026 8:05 PM.", "2026-11-18T20:06Z"),
        ("Your weekly limit resets Nov 19 at 5am (UTC)", "2026-11-19T05:01Z"),
        ("Your weekly limit resets Nov 24 at 5am (UTC)", "2026-11-24T05:01Z"),
        ("resets Jan 2, 5am (UTC)", "2026-11-26T07:00Z"),
        ("resets 7am (UTC)", "2026-11-18T07:01Z"),
        ("resets 6:59am (UTC)", "2026-11-18T07:01Z"),
        ("resets 6:58am (UTC)", "2026-11-19T06:59Z"),
        ("resets Nov 18 at 6:59am (UTC)", "2026-11-18T07:01Z"),
        ("try again at Nov 17th, 4:05 AM", None),
        ("try again at Nov 17th, 2026 4:05 AM", None),
        ("try again at Feb 30th, 4:05 AM", None),
        ("resets 31:99am (UTC)", None),
        ("It was 5:30am when I gave up.", None),
    ],
)
def test_a_clock_time_in_the_providers_words_is_waited_for(
    said: str, then: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = datetime.fromisoformat("2026-11-18T07:00Z").timestamp()
    expected = None if then is None else datetime.fromisoformat(then).timestamp() - now
    assert failure_of(said, now).retry_after == expected
    assert failure_of(said, now).kind == ("transient" if then is None else "limit")
    monkeypatch.undo()
    time.tzset()


def test_a_clock_time_of_the_machine_is_right_on_the_night_the_clocks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    now = datetime.fromisoformat("2026-10-24T22:00+02:00").timestamp()
    then = datetime.fromisoformat("2026-10-25T05:31+01:00").timestamp()
    assert failure_of("try again at 5:30 AM", now).retry_after == then - now
    monkeypatch.undo()
    time.tzset()


def test_fields_of_their_own_come_before_the_words() -> None:
    now = 1_790_000_000.0
    limited = failure_of("resets 5:30am (UTC)", now, status=429, resets_at=now + 77)
    assert (limited.retry_after, limited.kind, limited.permanent) == (77, "limit", False)
    for wrong in (failure_of("No", status=401), failure_of("No", status=403), failure_of("No", code="unauthorized")):
        assert (wrong.kind, wrong.permanent, wrong.retry_after) == ("login", True, None)
    assert failure_of("Not logged in · Please run /login").kind == "login"


@pytest.mark.parametrize("message", [error(429, retry_after=1e9), error(429, resets_at=1e12), "Try again in 900h."])
def test_no_one_waits_for_much_more_than_a_week(message: str) -> None:
    assert failure_of(message, 0.0).retry_after == LONGEST_WAIT


def test_the_outcome_of_such_a_session() -> None:
    limited = failed_outcome(failure_of(error(429, "Slow down", resets_in_seconds=30)), "log in")
    assert (limited.ending, limited.cause, limited.stop_reason) == ("refused", "429: Slow down", "error")
    assert (limited.permanent, limited.retry_after) == (False, 30)
    refused = failed_outcome(failure_of(error(401, "Wrong key")), "log in")
    assert (refused.permanent, refused.retry_after) == (True, None)
    assert refused.cause == "401: Wrong key (log in)"
    later = failed_outcome(failure_of(error(429, resets_at=time.time() + 600)), "log in")
    assert later.retry_after == pytest.approx(600, abs=60)


ZAI = "429: " + json.dumps(
    {"code": "1308", "message": "Usage limit reached for 5 hour. Your limit will reset at 2026-11-18 19:01:25"}
)
CODEX = "Codex error: " + json.dumps(
    {
        "type": "error",
        "error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "resets_in_seconds": 13872,
        },
        "status_code": 429,
        "headers": {"X-Codex-Primary-Reset-After-Seconds": "13873"},
    }
)
GOOGLE = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074824224s"},
        ],
    }
}
NESTED = "got status: 429 Too Many Requests. " + json.dumps({"error": {"message": json.dumps(GOOGLE), "code": 429}})
OPENROUTER = "429 " + json.dumps(
    {
        "error": {
            "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests",
            "code": 429,
            "metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Reset": "1795046400000"}},
        }
    }
)
GROQ = (
    "429 Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on "
    "tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in {}. Need more tokens? Upgrade"
)
DATED = error(429, "Resets in 42m.", type="rate_limit_error", reset_at="2026-11-18T07:42:30.000Z")
UPGRADE = "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again"
LATER = "This request would exceed your account's rate limit. Please try again later."


@pytest.mark.parametrize(
    ("said", "then"),
    [
        (ZAI, "2026-11-18T11:01:25Z"),
        ("Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-11-20 00:00:00", "2026-11-19T16:00:00Z"),
        ("Usage limit reached for 5 hour. Your limit will reset at 2026-11-18 14:30:00", None),
        ("已达到 5 小时的使用上限。您的限额将在 2026-11-18 19:41:44 重置。", "2026-11-18T11:41:44Z"),
        ("Weekly/Monthly Limit Exhausted... reset at 2026-11-19T00:00:00Z", "2026-11-19T00:00:00Z"),
        ("limit resets at: 2026-11-18T10:13:01+0000", "2026-11-18T10:13:01Z"),
        ("Your quota resets at 2026-11-18T10:13:01", "2026-11-18T10:13:01Z"),
        ("Your quota resets at 2026-11-18 10:13 UTC", "2026-11-18T10:13:00Z"),
        ("Usage limit reached. It resets at 2026-11-18T10:13:01.123+02:00.", "2026-11-18T08:13:01Z"),
        ("The daily limit resets at 16:30 UTC", "2026-11-18T16:31:00Z"),
        ("Rate limited; try again at 06:15 (UTC).", "2026-11-19T06:16:00Z"),
        ("Your limit resets at 18:00 (UTC+8)", "2026-11-18T10:01:00Z"),
        ("Your limit resets at 2026-13-40 18:00:00", None),
        ("Retry-After: Wed, 99 Nov 2026 08:00:00 GMT", None),
        ("It failed. Date: Wed, 18 Nov 2026 08:00:00 GMT", None),
        ("429 Too Many Requests. Retry-After: Wed, 18 Nov 2026 08:00:00 GMT", "2026-11-18T08:00:00Z"),
        (error(429, **{"retry-after": "Wed, 18 Nov 2026 08:00:00 GMT"}), "2026-11-18T08:00:00Z"),
        (error(429, headers={"Retry-After": "120"}), "2026-11-18T07:02:00Z"),
        (DATED, "2026-11-18T07:42:30Z"),
        (json.dumps(GOOGLE), "2026-11-18T07:00:34Z"),
        (NESTED, "2026-11-18T07:00:34Z"),
        ("Quota exceeded for metric: generate_content. Please retry in 34.07s.", "2026-11-18T07:00:34Z"),
        ("You have exhausted your capacity. Your quota will reset after 27h41m36s.", "2026-11-19T10:41:36Z"),
        (OPENROUTER, "2026-11-19T00:00:00Z"),
        ("429 You have exhausted your daily quota on this model.", "2026-11-18T08:01:00Z"),
        ("You've hit your limit · resets 3pm (America/Nowhere)", "2026-11-18T15:01:00Z"),
        (GROQ.format("9m38.016s"), "2026-11-18T07:09:38Z"),
        (GROQ.format("50.597142857s"), "2026-11-18T07:00:50Z"),
        (CODEX, "2026-11-18T10:51:12Z"),
        (f"{UPGRADE} in 5 days 22 hours 11 minutes.", "2026-11-24T05:11:00Z"),
        (f"{UPGRADE} at Nov 20th, 2026 8:19 PM.", "2026-11-20T20:20:00Z"),
        ("You've hit your usage limit... or try again at Nov 20, 2026, 7:38 AM", "2026-11-20T07:39:00Z"),
        ("You've hit your limit · resets 11pm (America/Anchorage)", "2026-11-18T08:01:00Z"),
        ("You've hit your session limit · resets 8:30pm (Asia/Tokyo)", "2026-11-18T11:31:00Z"),
        ("You've hit your weekly limit · resets Nov 20, 3pm (Europe/Berlin)", "2026-11-20T14:01:00Z"),
        ("Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max", "2026-11-19T01:01:00Z"),
        ("5-hour limit reached ∙ resets 3pm", "2026-11-18T15:01:00Z"),
        ("Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", "2026-11-18T18:01:00Z"),
        ("Claude AI usage limit reached|1795000000", "2026-11-18T11:06:40Z"),
        ("Please wait for your limit to reset in 3 hours 49 minutes or switch to auto model.", "2026-11-18T10:49:00Z"),
        ("Come back in 3h 47m — your free usage resets automatically at midnight Pacific.", "2026-11-18T10:47:00Z"),
        ("Requests have exceeded the call rate limit. Please retry after 26 seconds.", "2026-11-18T07:00:26Z"),
        (error(429, LATER, type="rate_limit_error"), None),
        ("429: We're receiving too many requests at the moment. Please wait a moment and try again.", None),
    ],
)
def test_a_reset_is_understood_as_providers_write_it(
    said: str, then: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were reported by people, with the dates moved to this day."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = datetime.fromisoformat("2026-11-18T07:00Z").timestamp()
    found = failure_of(said, now)
    expected = None if then is None else datetime.fromisoformat(then).timestamp() - now
    assert found.retry_after == (None if expected is None else pytest.approx(expected, abs=1))
    assert not found.permanent
    assert found.kind == "limit" or then is None
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "said",
    [
        "Connection error.",
        "fetch failed",
        "terminated",
        "Request timed out.",
        "500: {}",
        "502 Bad Gateway",
        "503 status code (no body)",
        "504 Gateway Time-out",
        error(529, "Overloaded", type="overloaded_error"),
        'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        'API Error (529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}) · Retrying',
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.",
        "API Error: Connection error.",
        "API Error: Unable to connect to API (ConnectionRefused)",
        "API Error (Request timed out.)",
        "connect ECONNREFUSED 127.0.0.1:443",
        "getaddrinfo ENOTFOUND api.example.com",
        "getaddrinfo EAI_AGAIN api.example.com",
        "curl: (6) Could not resolve host: api.example.com",
        "curl: (7) Failed to connect to api.example.com port 443",
        "stream disconnected before completion: error sending request for url (https://example.com/responses)",
        "dial tcp: lookup api.example.com: no such host",
        "exception TypeError: fetch failed sending request",
        '{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}',
    ],
)
def test_a_network_or_a_provider_that_is_away_is_told_from_other_errors(said: str) -> None:
    found = failure_of(said)
    assert (found.kind, found.permanent) == ("outage", False)
    assert failed_outcome(found, "").outage


@pytest.mark.parametrize(
    "said",
    [
        error(429, "The server is overloaded"),
        error(401, "Connection refused"),
        "Stream ended without finish_reason",
        "error: no matching overloaded function",
        "tests failed: expected status code 500, got 200",
        'Wrote {"code": 503}',
        "It broke.",
    ],
)
def test_no_other_error_counts_as_one(said: str) -> None:
    assert failure_of(said).kind != "outage"


def test_an_outage_may_say_how_long_it_takes() -> None:
    found = failure_of(error(503, "Down for maintenance", retry_after=900))
    assert (found.kind, found.retry_after) == ("outage", 900)


_NUMBERS = st.integers(0, 99_999)
_SHAPES = st.sampled_from(
    [
        "resets at {}:{} (UTC+{})",
        "try again at Nov {}, {} {}:15 PM",
        "will reset at {}-{}-10 10:{}:00",
        "Retry-After: Wed, {} Nov {} 08:{}:00 GMT",
        "limit reached|{}{}{}",
        "try again in {}d {}h {}s",
        '429: {{"retry_after": "{}", "reset_at": "{}", "resets_at": {}}}',
        "{}{}{}",
    ]
)


@given(_SHAPES, st.lists(_NUMBERS.map(str) | st.text(max_size=8), min_size=3, max_size=3))
def test_no_words_of_a_provider_break_the_reader(shape: str, words: list[str]) -> None:
    found = failure_of(shape.format(*words), 1_795_000_000.0)
    assert found.retry_after is None or 0 < found.retry_after <= LONGEST_WAIT
