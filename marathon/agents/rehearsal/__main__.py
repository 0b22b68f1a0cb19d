"""One session of the rehearsal agent: work on one phase, write its document, propose in STATE.json what comes next."""

import json
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from marathon.agents.rehearsal.project import Function, document, git, public_functions, read_sources, run_tests
from marathon.core.text import counted

FINDING = re.compile(r"^- `([^`]+):\d+` `(\w+)` has no docstring$", re.MULTILINE)
OPEN_STEP = re.compile(r"^- \[ \] (.*)$", re.MULTILINE)
HEARD = re.compile(r"^- .+: “.*” → .*$", re.MULTILINE)
COMMENT = re.compile(r"^> (c\d+) (\(.*?\): .*)$", re.MULTILINE)
PLACE = re.compile(r"\((?:must be answered|a note), (\w+\.md) lines? (\d+)(?:-(\d+))?")
LEAVE_ALONE = re.compile(r"\b(leave|left alone|skip|ignore|except|do not touch|don't touch|hands off)\b", re.IGNORECASE)
NO_LONGER = {
    "research": "it is not among the findings",
    "plan": "no step is about it",
    "implement": "it is not touched",
}
SECTIONS = ("Goal", "Scope", "Constraints", "Success Criteria")


class Session(NamedTuple):
    project: Path
    task: Path
    phase: str
    prompt: str
    answers: dict[str, str] = {}  # noqa: RUF012 - never changed: what came of each comment, by its id

    def say(self, line: str) -> None:
        """Print what happens, at a pace that a human can watch."""
        print(line, flush=True)
        time.sleep(float(os.environ.get("MARATHON_REHEARSAL_PACE") or 0))

    def read(self, name: str) -> str:
        path = self.task / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def write(self, name: str, *lines: str) -> None:
        (self.task / name).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
        self.say(f"wrote {name}")

    def propose(self, state: str, phase: str, note: str, **more: Any) -> None:
        """Write STATE.json. Fields that are not ours stay as they are."""
        iteration, now = int(os.environ.get("MARATHON_ITERATION", "1")), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ours = {"state": state, "phase": phase, "iteration": iteration, "updatedAt": now, "note": note}
        fields = {**json.loads(self.read("STATE.json") or "{}"), **more, **ours}
        if self.answers:
            fields["answers"] = {**fields.get("answers", {}), **self.answers}
        self.say(f"{state}: {note}")
        (self.task / "STATE.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")

    def wishes(self) -> list[tuple[str, str]]:
        """What the prompt brings from the human and the runner, each line with the heading above it."""
        sections = re.split(r"(?m)^## ", self.prompt.partition("\n## What to do")[0])[1:]
        quoted = [(part.partition("\n")[0], line) for part in sections for line in last_quotation(part)]
        return [(heading, line) for heading, line in quoted if not line.startswith("#")]

    def heard(self) -> list[str]:
        """A line for each wish: what was asked, and what came of it."""
        return [f"- {heading}: “{wish}” → {self.came_of(wish)}" for heading, wish in self.wishes()]

    def answered(self) -> dict[str, str]:
        """What this session changes because of each comment. It is found before the documents are written anew."""
        found = {}
        for id, comment in COMMENT.findall(self.prompt):
            if names := joined(self.meant(comment)):
                found[id] = f"{names} is left alone now: {NO_LONGER.get(self.phase, 'noted')}"
            else:
                can = "This agent only adds docstrings, and can leave some out, as in: skip slug"
                found[id] = f"nothing was changed. {can}. An agent with a model would do more"
        return found

    def meant(self, wish: str) -> set[str]:
        """What the wish names; a comment may mean what stands in the lines it is about."""
        names, place = self.named_to_leave(wish), PLACE.search(wish)
        if names or not place or not LEAVE_ALONE.search(wish):
            return names
        first, last = int(place[2]), int(place[3] or place[2])
        lines = self.read(place[1]).splitlines()[first - 1 : last]
        named = self.named_to_leave("\n".join(f"skip {re.sub(r'[:`]', ' ', line)}" for line in lines))
        return {name for name in named if not name.endswith(".py")} or named

    def came_of(self, wish: str) -> str:
        names = joined(self.meant(wish))
        return f"left alone: {names}" if names else "not acted on, that takes an agent with a model"

    def heading(self) -> list[str]:
        """The beginning of a document: title, round, and what was asked for in every round so far."""
        task = re.search(r"^# +(.+)$", self.read("instructions.md"), re.MULTILINE)
        again = re.match(r"# .*(, round \d+)", self.prompt)
        title = f"# {self.phase.capitalize()}{again[1] if again else ''}: {task[1] if task else self.task.name}"
        heard = [*HEARD.findall(self.read(f"{self.phase}.md")), *self.heard()] or ["Nothing beyond the instructions."]
        return [title, "", "## What you asked for", "", *heard, ""]

    def spared(self) -> set[str]:
        """What the human wants left alone. Only the documents remember what was asked in earlier sessions."""
        earlier = [line for name in ("research", "plan", "work") for line in HEARD.findall(self.read(f"{name}.md"))]
        said = [self.read("instructions.md"), self.read("human.md"), *earlier, *(wish for _, wish in self.wishes())]
        return self.named_to_leave("\n".join(said)).union(*(self.meant(wish) for _, wish in self.wishes()))

    def named_to_leave(self, text: str) -> set[str]:
        """The files and functions that a sentence with "leave", "skip" or the like names."""
        parts = [part for part in re.split(r"(?<=[.!?;])\s+|\n|\bbut\b", text) if LEAVE_ALONE.search(part)]
        words = {word.strip("`'\"“”.,:;!?()") for part in parts for word in part.split()}
        functions = public_functions(self.project)
        files = {each.path for each in functions if {each.path, os.path.basename(each.path)} & words}
        return files | {each.name for each in functions if each.name in words}

    def undocumented(self) -> list[Function]:
        spared, functions = self.spared(), public_functions(self.project)
        return [each for each in functions if not each.documented and not {each.path, each.name} & spared]


def research(session: Session) -> None:
    instructions = session.read("instructions.md")
    for path, source in read_sources(session.project).items():
        session.say(f"reading {path} ({counted(len(source.splitlines()), 'line')})")
    found = [f"- `{each.path}:{each.line}` `{each.name}` has no docstring" for each in session.undocumented()]
    missing = [name for name in SECTIONS if not re.search(rf"^## {name}\s+[^#\s]", instructions, re.MULTILINE)]
    missing += [] if re.search(r"`[^`\n]+ [^`\n]+`", instructions) else ["a command that checks the result"]
    notes = [f"- Left alone: {joined(session.spared()) or 'nothing'}", f"- Tests: {run_tests(session.project)[1]}"]
    findings = found or ["There is no Python function here that this agent could document."]
    session.write("research.md", *session.heading(), "## Findings", "", *findings, "", "## Notes", "", *notes)
    rating = {"rating": {"points": 10 - 2 * len(missing), "missing": missing}} if "rating" in session.prompt else {}
    hint = os.environ.get("MARATHON_REHEARSAL_HINT", "") if os.environ.get("MARATHON_ITERATION") == "1" else ""
    note = f"Research complete - {counted(len(found), 'finding')} to review"
    session.propose("paused", "research", f"{note}. {hint}" if hint else note, **rating)


def plan(session: Session) -> None:
    """A step for each file among the findings in research.md, as the human left them."""
    spared, files = session.spared(), dict[str, list[str]]()
    for path, name in FINDING.findall(session.read("research.md")):
        if not {path, name} & spared:
            files.setdefault(path, []).append(name)
    steps = [*(f"Document {joined(names)} in `{path}`" for path, names in files.items()), "Run the tests"]
    boxes = [f"- [ ] {number}. {step}" for number, step in enumerate(steps, start=1)]
    rule = "One step per session. If tests passed before a step and fail after it, the step is taken back."
    session.write("plan.md", *session.heading(), "## Steps", "", *boxes, "", rule)
    session.propose("paused", "plan", f"Plan ready - {counted(len(steps), 'step')} to review")


def implement(session: Session) -> None:
    """Do the next open step of plan.md. After the last one, write result.md."""
    steps = session.read("plan.md")
    step = OPEN_STEP.search(steps)
    done, outcome = do_step(session, step[1]) if step else ("- [x]" in steps, "plan.md has no open step")
    session.say(outcome)
    log = [session.read("work.md") or "# Work\n", f"## {datetime.now(UTC):%Y-%m-%d %H:%M:%S}", "", *session.heard()]
    session.write("work.md", *log, f"- {step[1] if step else 'plan.md'}: {outcome}")
    if not done:
        return session.propose("paused", "implement", f"A step could not be done: {outcome}")
    if step:
        steps = f"{steps[: step.start()]}- [x] {step[1]} → {outcome}{steps[step.end() :]}"
        session.write("plan.md", steps)
    if OPEN_STEP.search(steps):
        return session.propose("running", "implement", "This step is done, the next one follows")
    settled = re.findall(r"(?m)^- \[[xX]\] .*$", steps)
    left = [f"`{each.path}:{each.line}`" for each in public_functions(session.project) if not each.documented]
    limits = f"This agent adds docstrings and nothing else. Still without one: {', '.join(left) or 'none'}"
    session.write("result.md", "# Result", "", *settled, "", limits)
    session.propose("completed", "done", "Every step of the plan is settled - see result.md", **judgements(session))


def do_step(session: Session, step: str) -> tuple[bool, str]:
    """Whether the step is settled, and what came of it."""
    project, wanted = session.project, re.fullmatch(r"\d+\. Document (.+) in `([^`]+)`", step)
    if "Run the tests" in step:
        return run_tests(project)
    if not wanted or wanted[2] not in read_sources(project):
        return False, "this agent can only document Python files of the project"
    path, spared = wanted[2], session.spared()
    before = after = read_sources(project)[path]
    for name in re.findall(r"`(\w+)`", wanted[1]):
        after = after if {path, name} & spared else document(after, name)
    if after == before:
        return True, "nothing changed"
    passed_before = run_tests(project)[0]
    in_git, other_changes = git(project, "status", "--porcelain", "--", path)
    session.say(f"editing {path}")
    (project / path).write_bytes(after.encode())
    passed, outcome = run_tests(project)
    if passed_before and not passed:
        (project / path).write_bytes(before.encode())
        return False, f"{outcome} after the edit of {path}, so the edit was taken back"
    if in_git and other_changes:
        return True, f"{outcome}, not committed because {path} holds other changes"
    ok, said = git(project, "commit", "-q", "-m", f"rehearsal: document {path}", "--", path)
    return True, f"{outcome}, committed" if ok else f"{outcome}, not committed: {' '.join(said.split())}"


def judgements(session: Session) -> dict[str, dict[str, Any]]:
    """A verdict and its evidence for every criterion that the prompt asks the agent to judge."""
    before, asked, _ = session.prompt.partition('"criteriaStatus"')
    names = last_quotation(before) if asked else []
    lacking, left = joined({each.name for each in session.undocumented()}), joined(session.spared())
    seen = f"without a docstring: {lacking or 'none'}, not counting what was left alone: {left or 'nothing'}"
    return {
        "criteriaStatus": {name: "docstring" in name and not lacking for name in names},
        "criteriaEvidence": {name: seen if "docstring" in name else "this agent cannot judge it" for name in names},
    }


def other_phase(session: Session) -> None:
    """A phase of another workflow: leave an honest note where its output belongs."""
    if output := re.search(r"^Write: (?:.*/)?(.+)$", session.prompt, re.MULTILINE):
        session.write(output[1], *session.heading(), "The rehearsal agent does not know this phase and did no work.")
    session.propose("paused", session.phase, f"{session.phase} is unknown to this agent, so no work was done")


def last_quotation(text: str) -> list[str]:
    blocks = re.findall(r"(?m)(?:^>.*\n?)+", text) or [""]
    return [line for each in blocks[-1].splitlines() if (line := " ".join(each[1:].split()))]


def joined(names: set[str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def main() -> None:
    task = Path(os.environ.get("MARATHON_TASK_DIR", "")).resolve()
    session = Session(Path.cwd(), task, os.environ.get("MARATHON_PHASE", "research"), sys.stdin.read())
    if not session.read("instructions.md").strip():
        sys.exit(f"rehearsal agent: there is no instructions.md in {task}. Write there what to do.")
    session = session._replace(answers=session.answered())
    for line in session.heard():
        session.say(line.removeprefix("- "))
    {"research": research, "plan": plan, "implement": implement}.get(session.phase, other_phase)(session)


if __name__ == "__main__":
    main()
