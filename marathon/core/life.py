"""A task's life is a fold of its journal: what is open, what was delivered, what was used.

Every task has this, whatever course it follows. What only its course knows lies in `own`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from marathon.core.breakers import (
    CUT_SHORT,
    FAILED,
    History,
    Streaks,
    after_checks,
    after_session,
    begun_anew,
    claims_end,
    is_waited_out,
    remember,
)
from marathon.core.budgets import (
    BUDGETS,
    LONGEST_OUTAGE_WAIT,
    Amounts,
    Limits,
    Usage,
    Used,
    total,
    with_amount,
    with_amounts,
)
from marathon.core.comments import Comment, note_of, noted
from marathon.core.criteria import Criterion
from marathon.core.gates import POLICIES, is_judged_again
from marathon.core.human_note import HumanNote, Reply
from marathon.core.records import (
    AgentTakesOver,
    Answer,
    Begun,
    Cancelled,
    Checked,
    Commented,
    CriteriaFound,
    DefinitionFound,
    FeedbackTaken,
    FeedbackWritten,
    FilesMissing,
    Finished,
    Followed,
    Gate,
    HandEdited,
    HumanMark,
    LimitSet,
    Moved,
    Oversight,
    OversightSet,
    Proposal,
    Rating,
    Record,
    Replied,
    RestartBegun,
    RowAdded,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SetUp,
    StartedWith,
    SteerTaken,
    Undone,
    WaitEnded,
    WaitStarted,
    WorktreeSet,
    Writes,
)
from marathon.core.writes import without

REVIEWED = (
    "The work was finished, and its pull request was looked at. Do what the comments ask as far as it serves the "
    "instructions, answer each, commit, and bring the result up to date. What they quote was written by others."
)
NOTHING_DELIVERED = HumanMark()
NOTHING_USED = Usage()


class Steer(NamedTuple):
    """What the human told the agent, with the name of its inbox file and its heading in human.md."""

    id: str
    text: str
    heading: str = ""

    @property
    def note(self) -> HumanNote:
        return HumanNote(self.heading, self.text)


class Answered(NamedTuple):
    """A gate and what was said to it. The next step follows from both."""

    gate: Gate
    answer: Answer


class Life(NamedTuple):
    """Where a task is. At most one of session, ended, gate, answered and wait is open, with one exception: beside a
    gate whose answer lets the end of the session be judged again, `ended` stays. A wait for hours is beside any."""

    last: int = 0
    begun: bool = False
    course: str = ""
    own: Any = None  # the course's own state
    phase: str = ""  # the name of the work at hand, for people and for STATE.json
    run: int = 0
    iteration: int = 0
    started: str = ""
    session: SessionStarted | None = None
    ended: SessionEnded | None = None
    gate: Gate | None = None
    answered: Answered | None = None
    wait: WaitStarted | None = None
    waited: WaitStarted | None = None
    cut_short: bool = False  # a human ended that wait early
    free_until: float = 0  # a human went on outside of the hours: until they begin, on the wall clock
    in_round: bool = False  # a session has worked on this round of the phase,
    round_mark: str | None = None  # and the output looked like this when the round began
    guidance: tuple[str, ...] = ()
    writes: tuple[tuple[str, Writes], ...] = ()  # what sessions wrote where they may not, since the last answer,
    untold: tuple[tuple[str, Writes], ...] = ()  # and what no agent was told of yet
    stopped_by: Gate | None = None  # its note is the agent's reason for what comes next
    sent_back: int = 0  # how often --auto-approve went back to an earlier phase in this run
    steer: tuple[Steer, ...] = ()
    told: tuple[Steer, ...] = ()  # all of these that stand in human.md beyond `delivered`, also those that were heard
    told_before: int = 0  # how many of them the session that runs was given
    reply: Reply | None = None  # to the agent's question
    edited: tuple[HandEdited, ...] = ()  # by the human at gates, and not yet told to an agent
    delivered: HumanMark = NOTHING_DELIVERED
    comments: tuple[Comment, ...] = ()
    comments_on_record: bool = False  # all of them; an older version had them in human.md alone
    comment_answers: tuple[tuple[str, str], ...] = ()  # by the agent, as each gate found them
    unwritten: HumanNote | None = None
    restart: RestartBegun | None = None
    restarted_with: str = ""  # the words that began this run, until a session was given them
    archived: tuple[str, ...] = ()  # the files of the run before, as they are called now
    agent: str = ""  # of the last session
    takes_over: str = ""  # the agent that works instead of the first one
    unable: tuple[str, ...] = ()  # the agents that failed since the last good session, each as often as it handed over
    resets: tuple[tuple[str, float], ...] = ()  # in how many seconds the limit of an agent resets, as it said last
    under_way: bool = False  # a session of this run came to its own end, or its model worked
    streaks: Streaks = Streaks()
    used: Used = Used()
    warned: tuple[str, ...] = ()
    limits: Amounts = ()  # typed for this task
    added: Amounts = ()  # the same, until the next go-ahead
    oversight: Oversight = "tool"
    started_with: StartedWith | None = None  # with which a start goes on that says nothing else
    worktree: WorktreeSet | None = None  # where the agent works, if not in the project itself,
    set_up: SetUp | None = None  # and how its setup ended
    looked: bool = False  # the human has looked at the session that ended
    rating: Rating | None = None  # of the instructions, by the session that ended last
    denied: str = ""  # what that session was not allowed to use
    definition: DefinitionFound | None = None  # what the workflow's files say
    pinned: DefinitionFound | None = None  # what the task goes by: the last one that was agreed to
    kept: str = ""  # the digest of a changed definition that the human does not want
    criteria: CriteriaFound | None = None
    agreed: tuple[Criterion, ...] = ()  # those that stood before anything was removed
    refused: bool = False  # the human refused changed criteria, so one session may fix them
    checked: Checked | None = None
    accepted: tuple[str, ...] = ()  # criteria that are not met, and that a human accepted
    missing: tuple[str, ...] = ()  # files that the task cannot do without
    without: tuple[str, ...] = ()  # those of them that the human continues without
    contents: History = ()
    steps: tuple[int, int] | None = None
    seconds: float = 0
    run_seconds: float = 0
    usage: Usage = NOTHING_USED
    documents: tuple[tuple[str, str], ...] = ()  # with their digests, as the runner last saw them
    claimed: tuple[str, ...] = ()  # phases that an adopted folder says are done, and that are still to be judged
    finished: bool = False
    cancelled: bool = False
    followed: tuple[tuple[str, str], ...] = ()  # what was taken from the pull request, each with its comment here,
    follow_rounds: int = 0  # how often that was in this run,
    replied: tuple[str, ...] = ()  # and where the answer was posted


class Follows(Protocol):
    """The part of a course that the fold needs."""

    def apply(self, before: Life, now: Life, record: Record) -> Any:
        """The course's own state after one more record."""


def fold(records: Iterable[Record], course: Follows) -> Life:
    life = Life()
    for record in records:
        life = apply(life, record, course)
    return life


def apply(before: Life, record: Record, course: Follows) -> Life:
    """The life after one more record."""
    now = _apply(before._replace(last=record.n), record)
    return now._replace(own=course.apply(before, now, record))


def _apply(now: Life, record: Record) -> Life:
    match record:
        case Begun():
            return _begun(now, record)
        case SessionStarted():
            return _session_started(now, record)
        case SessionEnded():
            return _session_ended(now, record)
        case Gate():
            ended = now.ended if POLICIES[record.reason].judge_again else None
            told = tuple({**dict(now.comment_answers), **record.answered}.items())
            return now._replace(gate=record, ended=ended, wait=None, answered=None, comment_answers=told)
        case Answer():
            return _answered(now, record)
        case Undone():
            return _undone(now, record)
        case HandEdited():
            others = tuple(each for each in now.edited if each.gate != record.gate)
            return now._replace(edited=(*others, record) if record.edits else others)
        case FeedbackTaken():
            return now._replace(unwritten=HumanNote(record.heading, record.text))
        case Commented():
            unwritten = now.unwritten if record.shown else note_of(record.comments[-1])
            comments = noted(now.comments, record.comments)
            return now._replace(comments=comments, comments_on_record=True, unwritten=unwritten)
        case FeedbackWritten():
            return now._replace(unwritten=None)
        case Moved():
            now = _at_rest(now)._replace(phase=record.phase, in_round=False, round_mark=None)
            now = now._replace(guidance=(record.looped,) if record.looped else (), streaks=Streaks(), checked=None)
            return _adopted_end(now._replace(claimed=tuple(record.claimed or now.claimed)), None)
        case WaitStarted(kind="hours"):
            return now._replace(wait=record)  # the session that has to wait follows from what stands here
        case WaitStarted():
            return now._replace(wait=record, ended=None, answered=None)
        case WaitEnded():
            return _wait_ended(now, record)
        case SteerTaken():
            steer = Steer(record.id, record.text, record.heading)
            now = now._replace(steer=(*now.steer, steer))
            return now._replace(told=(*now.told, steer), unwritten=steer.note) if steer.heading else now
        case RestartBegun():
            return now._replace(restart=record)
        case RunStarted():
            return _run_started(now, record)
        case OversightSet():
            return now._replace(oversight=record.oversight)
        case StartedWith():
            return now._replace(started_with=record)
        case WorktreeSet():
            return now._replace(worktree=record if record.branch else None, set_up=None)
        case SetUp():
            return now._replace(set_up=record)
        case DefinitionFound():
            return now._replace(definition=record, pinned=record if record.agreed else now.pinned)
        case CriteriaFound():
            agreed = tuple(record.criteria) if record.agreed else now.agreed
            return now._replace(criteria=record, agreed=agreed, checked=None)
        case Checked():
            return now._replace(checked=record, streaks=after_checks(now.streaks, record, now.iteration))
        case FilesMissing():
            still = tuple(name for name in now.without if name in record.names)
            return now._replace(missing=tuple(record.names), without=still)
        case LimitSet():
            return _limit_set(now, record)
        case AgentTakesOver():
            unable = (*now.unable, record.after)
            return now._replace(ended=None, takes_over=record.agent, unable=unable, streaks=Streaks())
        case RowAdded():
            match record.row.get("action"):  # a loop that is paused keeps what is open
                case "paused" | "stopped":
                    return now
                case "resumed":
                    return now._replace(answered=None)
            return _at_rest(now)
        case Finished():
            return _at_rest(now)._replace(finished=True, accepted=tuple(record.accepted))
        case Followed():
            return _followed(now, record)
        case Replied():
            return now._replace(replied=(*now.replied, record.to))
        case Cancelled():
            return _at_rest(now)._replace(cancelled=True)
        case _:
            return now


def _followed(now: Life, record: Followed) -> Life:
    return _at_rest(now)._replace(
        finished=False,
        in_round=False,
        round_mark=None,
        guidance=(REVIEWED,),
        streaks=Streaks(),
        checked=None,
        accepted=(),
        followed=tuple({**dict(now.followed), **record.taken}.items()),
        follow_rounds=now.follow_rounds + 1,
    )


def _at_rest(now: Life) -> Life:
    """Nothing is open any more."""
    return now._replace(session=None, ended=None, gate=None, answered=None, wait=None, waited=None)


def _begun(now: Life, record: Begun) -> Life:
    now = now._replace(
        begun=True,
        course=record.course,
        phase=record.phase,
        run=1,
        iteration=record.iteration,
        started=record.at,
        claimed=tuple(record.claimed or ([record.phase] if record.review else [])),
        finished=record.over,
        comments_on_record=record.comments == "records",
    )
    return _adopted_end(now, record.note)


def _adopted_end(now: Life, note: str | None) -> Life:
    """A phase that an adopted folder says is done is judged as if its session had just ended."""
    if now.phase not in now.claimed:
        return now
    proposal = Proposal(state="paused", phase=now.phase, note=note)
    ended = SessionEnded(ending="ended", proposal=proposal, output="fresh")
    return now._replace(ended=ended, in_round=True, claimed=tuple(set(now.claimed) - {now.phase}))


def _session_started(now: Life, record: SessionStarted) -> Life:
    return _at_rest(now)._replace(
        session=record,
        agent=record.agent,
        iteration=record.iteration,
        guidance=tuple(record.guidance),
        told_before=len(now.told),
        in_round=True,
        round_mark=now.round_mark if now.in_round else record.output_mark,
        used=now.used._replace(sessions=now.used.sessions + 1),
        warned=(*now.warned, *record.warned),
        looked=False,
        refused=False,
        checked=None,
        claimed=(),  # what came later in the folder was made for another version of this phase
        unwritten=None,  # written before any agent starts; some older journals do not say so
    )


def _session_ended(now: Life, record: SessionEnded) -> Life:
    started, now = now.session, _seen(now, record.documents)
    spent = record.usage or NOTHING_USED
    used = now.used.plus(spent, record.seconds)
    now = now._replace(
        session=None,
        ended=record,
        used=used._replace(sessions=max(0, used.sessions - is_waited_out(record))),
        under_way=now.under_way or record.ending not in CUT_SHORT or spent.tokens > 0,
        warned=(*now.warned, *record.warned),
        seconds=now.seconds + record.seconds,
        run_seconds=now.run_seconds + record.seconds,
        usage=now.usage.plus(spent),
        streaks=after_session(now.streaks, record, now.phase, now.iteration),
        contents=remember(now.contents, dict(record.files)) if record.files else now.contents,
        steps=record.steps or now.steps,
        unable=now.unable if record.ending in FAILED else (),
        resets=_resets(now, record),
        rating=record.rating,
        denied=record.denied,
    )
    heard, new = started is not None and _was_heard(record, now.phase), []
    if record.writes:
        new = [(now.phase, record.writes)]
        now = now._replace(writes=(*now.writes, *new))
    now = now._replace(untold=(*(() if heard else now.untold), *new))
    if started is None or not heard:
        return now
    given = {*started.steer, *record.steered}
    return now._replace(
        delivered=started.human,
        restarted_with="",
        reply=None,
        stopped_by=None,
        edited=(),
        guidance=(),
        comments=tuple(replace(each, sent=each.sent or each.id in started.comments) for each in now.comments),
        steer=tuple(steer for steer in now.steer if steer.id not in given),
        told=now.told[now.told_before :],
        told_before=0,
    )


def _was_heard(ended: SessionEnded, phase: str) -> bool:
    """Whether the prompt counts as delivered. It does for a session cut off after its work was done as well."""
    return ended.ending not in CUT_SHORT or (ended.output == "fresh" and claims_end(ended, phase))


def _resets(now: Life, record: SessionEnded) -> tuple[tuple[str, float], ...]:
    others = [each for each in now.resets if each[0] != now.agent and record.ending in FAILED]
    return (*others, *([(now.agent, record.retry_after)] if record.ending in FAILED and record.retry_after else []))


def _wait_ended(now: Life, record: WaitEnded) -> Life:
    if now.wait and now.wait.kind == "hours":
        return now._replace(wait=None, free_until=now.wait.until if record.early else 0)
    if now.wait and now.wait.kind != "agent" and now.streaks.outages and not record.early:
        # A reset that was told may be a week away and is believed, but not again and again without an end.
        waited = now.wait.seconds if now.wait.kind == "outage" else min(now.wait.seconds, LONGEST_OUTAGE_WAIT)
        now = now._replace(streaks=now.streaks._replace(away=now.streaks.away + waited))
    return now._replace(wait=None, waited=now.wait, cut_short=record.early)


def _answered(now: Life, record: Answer) -> Life:
    gate = now.gate
    if gate is None:
        return now
    policy, now = POLICIES[gate.reason], _seen(now, record.documents)
    now = now._replace(gate=None, answered=Answered(gate, record), waited=None, looked=True, writes=())
    if policy.gives_reason:
        now = now._replace(stopped_by=gate if gate.note else None)
    if policy.auto == "back" and record.by == "auto":
        now = now._replace(sent_back=now.sent_back + 1)
    if policy.standing and record.choice == "continue":
        now = now._replace(without=(*now.without, *gate.about))
    if policy.forgives:
        now = now._replace(streaks=Streaks(), contents=begun_anew(now.contents))
    if gate.more:
        now = _allowed_again(now, gate)
    if is_judged_again(gate, record) and (now.ended is not None or policy.judge_again == "any"):
        now = now._replace(answered=None, checked=None)
    if gate.reason == "setup" and now.set_up:  # run it again, or do without it
        now = now._replace(set_up=None if record.choice == "continue" else replace(now.set_up, met=True))
    if policy.agreement == "criteria":
        now = _agreed(now, gate, record)
    if policy.agreement == "definition":
        now = _defined(now, gate, record)
    if record.choice == "answer":
        reply = Reply(gate.message, record.text, record.heading)
        return now._replace(reply=reply, unwritten=reply.note if record.text.strip() else None)
    return now._replace(unwritten=HumanNote(record.heading, record.text) if record.text else None)


def _undone(now: Life, record: Undone) -> Life:
    writes, untold = (
        tuple((phase, without(each, record.files, record.commit)) for phase, each in found)
        for found in (now.writes, now.untold)
    )
    now = now._replace(writes=writes, untold=untold)
    if now.gate is None:
        return now
    rest = any(each.tree and (each.files or each.commit) for _, each in writes)
    back = [*now.gate.put_back, *record.put_back]
    return now._replace(gate=replace(now.gate, writes=list(record.writes), put_back=back, undoable=rest))


def _seen(now: Life, documents: dict[str, str]) -> Life:
    return now._replace(documents=tuple({**dict(now.documents), **documents}.items()))


def _agreed(now: Life, gate: Gate, record: Answer) -> Life:
    """A yes counts for exactly the criteria that the gate showed."""
    if record.choice != "continue":
        return now._replace(refused=True)
    if now.criteria is None or now.criteria.digest != gate.digest:
        return now
    return now._replace(criteria=replace(now.criteria, agreed=True), agreed=tuple(now.criteria.criteria))


def _defined(now: Life, gate: Gate, record: Answer) -> Life:
    """A yes counts for exactly the definition that the gate showed."""
    if record.choice != "continue":
        return now._replace(kept=gate.digest)
    if now.definition is None or now.definition.digest != gate.digest:
        return now
    agreed = replace(now.definition, agreed=True)
    return now._replace(definition=agreed, pinned=agreed)


def _allowed_again(now: Life, gate: Gate) -> Life:
    """As much again of what was used up. The other budgets stay as they are."""
    budget = next((each for each in BUDGETS if gate.more.startswith(f"{each.flag} ")), None)
    if budget is None:
        return now._replace(used=Used(), warned=(), added=())
    return now._replace(
        used=now.used._replace(**{budget.counter: 0}),
        warned=tuple(name for name in now.warned if name != budget.field),
        added=with_amount(now.added, budget.field, None),
    )


def _limit_set(now: Life, record: LimitSet) -> Life:
    if record.added:
        return now._replace(added=with_amount(now.added, record.name, record.value))
    limits = with_amount(now.limits, record.name, record.value)
    return now._replace(limits=limits, added=with_amount(now.added, record.name, None))


def _run_started(now: Life, record: RunStarted) -> Life:
    """A new run keeps what belongs to the task and forgets what belonged to the run before."""
    return Life(
        last=now.last,
        begun=now.begun,
        course=now.course,
        own=now.own,
        phase=record.phase,
        run=record.run,
        restarted_with=now.restart.text if now.restart else "",
        archived=tuple(name for _, name in now.restart.files) if now.restart else (),
        started=record.at,
        delivered=now.delivered,
        comments=now.comments,
        comments_on_record=now.comments_on_record,
        comment_answers=now.comment_answers,
        steer=now.steer,
        told=now.told,
        seconds=now.seconds,
        usage=now.usage,
        limits=now.limits,
        oversight=now.oversight,
        started_with=now.started_with,
        worktree=now.worktree,
        set_up=now.set_up,
        definition=now.definition,
        pinned=now.pinned,
        kept=now.kept,
        criteria=now.criteria,
        agreed=now.agreed,
        followed=now.followed,
        replied=now.replied,
    )


def limits_of(life: Life) -> Limits:
    """The limits that were given to this task; without the usual one, which no one chose."""
    here = tuple(life.gate.limits.items()) if life.gate else ()
    return with_amounts(Limits(max_iterations=0), here, life.limits, life.added)


def total_of(life: Life) -> str:
    return total(limits_of(life), life.used, life.usage, life.seconds)
