"""A gate is data: why it is open, what may be answered, and what an answer does. Every surface renders the same offers.

Whatever is special about one reason stands in its row of POLICIES.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from marathon.core.courses.where import Where
from marathon.core.courses.workflow import DONE
from marathon.core.records import Answer, Choice, Gate, Oversight, Reason
from marathon.core.text import one_line

Words = Literal["none", "optional", "required"]
WAITS_FOR_HUMAN = 3
MOST_SENT_BACK = 2  # by --auto-approve, in one run
LOOK_AGAIN = "Look at the files again"
HEAVY: tuple[str, ...] = ("loop", "cancel", "accept")


@dataclass(frozen=True)
class Policy:
    """What is special about one reason for a gate."""

    exit_code: int = WAITS_FOR_HUMAN  # when no one is there to answer
    keys: str = "enter f r back"  # the offers, before loop, oversight, cancel and quit
    enter: str = ""  # the label of Enter or y, where it is not the usual one
    # Whether --auto-approve answers it. next: only if the work can continue. back: a few times, by going back.
    # kept: only where what it is about was kept, and can be undone later.
    auto: Literal["never", "next", "back", "kept", "always"] = "never"
    # After a yes, or after any answer, the session's end is judged as if there were no gate.
    judge_again: Literal["", "yes", "plain", "any"] = ""
    forgives: bool = True  # an answer sets the breakers back
    tells_agent: bool = False  # the agent needs to hear the message too
    gives_reason: bool = False  # the next session is told the agent's note, because it says why the work stopped
    review_round: bool = False
    standing: bool = False  # it closes by itself once its cause is gone, for example after --max-cost +10
    agreement: Literal["", "criteria", "definition"] = ""  # the answer is about what the gate shows
    whole_message: bool = False  # shown in full, because the human may agree to it
    shows_log: bool = False
    waits_for: str = "you: {message}"


POLICIES: dict[Reason, Policy] = {
    "review": Policy(auto="next", review_round=True, waits_for="your review of {phase}"),
    "rounds": Policy(exit_code=5, review_round=True),
    "output": Policy(tells_agent=True, gives_reason=True),
    "skipped": Policy(auto="next", tells_agent=True, gives_reason=True, keys="enter f r phases"),
    "back": Policy(auto="back", gives_reason=True, keys="return r phases"),
    "paused": Policy(gives_reason=True, keys="enter f r phases"),
    "question": Policy(keys="answer", waits_for="your answer: {message}", whole_message=True),
    "failed": Policy(exit_code=1, gives_reason=True, shows_log=True),
    "blocked": Policy(exit_code=1, gives_reason=True, judge_again="plain", keys="enter f r back accept"),
    "left": Policy(gives_reason=True),
    "stuck": Policy(exit_code=5, gives_reason=True, keys="enter f r back accept"),
    "invalid": Policy(tells_agent=True),
    "limit": Policy(exit_code=4, judge_again="yes", standing=True, enter="Continue and allow the same amount again"),
    "workflow": Policy(keys="phases"),
    "definition": Policy(
        keys="yes no",
        enter="Agree to exactly this workflow",
        judge_again="any",
        forgives=False,
        standing=True,
        agreement="definition",
        whole_message=True,
        waits_for="your yes to this project's workflow",
    ),
    "redefined": Policy(
        keys="yes keep",
        enter="Use the changed workflow from now on",
        judge_again="any",
        forgives=False,
        standing=True,
        agreement="definition",
        whole_message=True,
        waits_for="your word on the changed workflow",
    ),
    "checks": Policy(
        keys="yes refuse",
        enter="Agree to exactly these",
        judge_again="yes",
        forgives=False,
        standing=True,
        agreement="criteria",
        whole_message=True,
    ),
    "setup": Policy(
        exit_code=1,
        keys="enter without",
        enter="Run it again",
        judge_again="any",
        forgives=False,
        standing=True,
        whole_message=True,
    ),
    "missing": Policy(enter="Continue anyway", judge_again="yes", forgives=False, standing=True),
    "writes": Policy(auto="kept", enter="Continue, and leave it as it is", judge_again="yes", forgives=False),
    "session": Policy(enter="Continue with the next session", auto="always", judge_again="yes", forgives=False),
    "baseline": Policy(exit_code=1, keys="enter", enter="Measure again", standing=True, whole_message=True),
    "clarify": Policy(standing=True),  # no longer opened: one that stands in an older journal closes by itself
}


@dataclass(frozen=True)
class Offer:
    """One thing a human may answer."""

    key: str  # on a terminal
    label: str
    choice: Choice
    phase: str | None = None
    words: Words = "none"
    ask: str = ""  # the question, where words are taken
    value: str = ""

    def command(self, task: str) -> str:
        """The same offer as a shell says it; empty for what only a terminal needs."""
        place = shlex.quote(task)
        phase = f" --phase {self.phase}" if self.phase and self.key not in "rn" else ""
        why = "" if self.words == "none" else ' -m "why"'
        match self.choice:
            case "continue":
                return f"pi-marathon approve {place}" + (' -m "note"' if self.words == "required" else "")
            case "redo":
                return f"pi-marathon redo {place}{phase}{why}"
            case "loop":
                return f"pi-marathon redo {place} --loop{why}"
            case "answer":
                return f'pi-marathon answer {place} "your answer"'
            case "accept":
                return f'pi-marathon approve {place} --anyway "why"'
            case "cancel":
                return f"pi-marathon cancel {place}"
            case "undo":
                return f"pi-marathon undo {place}"
            case "oversight":
                return f"pi-marathon --task {place} --oversight {self.value}"
        return ""

    @property
    def heavy(self) -> bool:
        """Rare and hard to take back, so a terminal wants the key twice."""
        return self.choice in HEAVY or (self.choice == "redo" and self.key.isdigit())

    def takes(self, answer: Answer) -> bool:
        wordless = self.words == "none" if answer.text.strip() else self.words == "required"
        return (self.choice, self.phase) == (answer.choice, answer.phase) and not wordless


def agrees(gate: Gate) -> bool:
    """Whether the gate is a question of yes or no about exactly what it shows, and not a problem with a file."""
    return bool(POLICIES[gate.reason].agreement and gate.digest)


def is_rare(offer: Offer, gate: Gate) -> bool:
    """Whether the offer may stay out of sight until the human asks for more."""
    back = offer.key.isdigit() and "back" in POLICIES[gate.reason].keys.split()
    return back or offer.choice in ("loop", "oversight", "cancel")


def offers(gate: Gate, where: Where, oversight: Oversight = "tool") -> tuple[Offer, ...]:
    """Everything this gate takes, in the order it is shown."""
    policy = POLICIES[gate.reason]
    found: list[Offer] = []
    for key in policy.keys.split():
        found += _of_key(key, gate, where, policy)
    if where.can_loop and not policy.agreement and policy.keys != "answer":
        label = "Loop: start this workflow again from its first phase"
        found.append(Offer("l", label, "loop", words="required", ask="Why once more?"))
    if gate.undoable:
        found.append(Offer("z", "See what changed meanwhile, and undo some of it", "undo"))
    if oversight == "tool":
        found.append(Offer("m", "Ask me after every session from now on", "oversight", value="colleague"))
    else:
        found.append(Offer("m", "Ask me only at reviews from now on", "oversight", value="tool"))
    found.append(Offer("x", "Cancel this run (asks once more)", "cancel"))
    return (*found, Offer("q", "Quit marathon", "quit"))


def _of_key(key: str, gate: Gate, where: Where, policy: Policy) -> Iterable[Offer]:
    match key:
        case "enter":
            yield Offer("enter", policy.enter or _continue(gate, where), "continue")
        case "yes":
            yield Offer("y" if agrees(gate) else "enter", policy.enter if agrees(gate) else LOOK_AGAIN, "continue")
        case "no":
            yield Offer("n", "No, and quit", "quit")
        case "f":
            yield Offer("f", "Add feedback first (writes to human.md)", "continue", words="required", ask="Feedback:")
        case "r":
            why = f"Why should {gate.phase} be done again?"
            label = f"Send back: say why, {gate.phase} is done again"
            yield Offer("r", label, "redo", gate.phase, "required", why)
        case "back":
            for number, phase in enumerate(where.phases[:9], start=1):
                if phase == gate.phase:
                    return
                why = f"Why go back to {phase}?"
                yield Offer(str(number), f"Go back to {phase}, saying why", "redo", phase, "required", why)
        case "phases":
            for number, phase in enumerate(where.phases[:9], start=1):
                yield Offer(str(number), f"Go to {phase}", "redo", phase, "optional", "Why? (may be empty)")
        case "return":
            why = f"What should {gate.back_to} take into account?"
            yield Offer("enter", f"Go back to {gate.back_to}", "redo", gate.back_to)
            yield Offer("f", f"Add feedback, then go back to {gate.back_to}", "redo", gate.back_to, "required", why)
        case "accept" if gate.about:
            unmet = ", ".join(one_line(name, 60) for name in gate.about[:3]) + (", …" if len(gate.about) > 3 else "")
            label = f"Accept anyway, although this is not met: {unmet} (asks once more)"
            yield Offer("a", label, "accept", words="required", ask="Why is it good enough?")
        case "refuse":
            label = "No, because … (one session may fix it)"
            yield Offer("n", label, "redo", gate.phase, "required", "No, because:")
        case "without":
            ask = "What should the agent know?"
            yield Offer("n", "Go on without it, and tell the agent why", "redo", gate.phase, "required", ask)
        case "keep":
            yield Offer("n", "No: keep the workflow that this task has", "redo", gate.phase)
        case "answer":
            yield Offer("enter", "Answer the question", "answer", words="optional", ask="Your answer:")


def _continue(gate: Gate, where: Where) -> str:
    if gate.onward == "next":
        last = where.next_phase == DONE
        return "Accept (this was the last phase)" if last else f"Continue to next phase ({where.next_phase})"
    return f"Continue with {gate.phase}"


def commands(found: Sequence[Offer], task: str, code: str = "") -> list[str]:
    """The offers as a shell says them, each as it can be typed; with the gate's code, also in a script."""
    with_code = f" --code {code}" if code else ""
    typed = [(offer, offer.command(task)) for offer in found if offer.choice != "oversight"]
    said = [command + (with_code if offer.choice != "cancel" else "") for offer, command in typed if command]
    return list(dict.fromkeys(said))


def refusal(found: Sequence[Offer], answer: Answer, task: str) -> str:
    """Why a gate does not take this answer, with what it offers instead; empty if it does take it."""
    if any(offer.takes(answer) for offer in found):
        return ""
    given = answer.choice + (f" {answer.phase}" if answer.phase else "") + (" with a message" if answer.text else "")
    listed = "\n  ".join(commands(found, task))
    return f"This is not offered: {given}. Nothing was changed. What is:\n  {listed}"


def auto_answer(gate: Gate, sent_back: int) -> Answer | None:
    """What --auto-approve answers: a yes to a look or to work in its order, or a few times the way back."""
    auto = POLICIES[gate.reason].auto if not gate.unanswered else "never"
    if auto == "back":
        return Answer(choice="redo", phase=gate.back_to, by="auto") if sent_back < MOST_SENT_BACK else None
    passes = auto == "always" or (auto == "next" and gate.onward == "next") or (auto == "kept" and gate.undoable)
    return Answer(choice="continue", by="auto") if passes else None


def is_judged_again(gate: Gate, answer: Answer) -> bool:
    """Whether the session's end is judged as if there had been no gate."""
    when = POLICIES[gate.reason].judge_again
    return when == "any" or (answer.choice == "continue" and (when == "yes" or (when == "plain" and not answer.text)))
