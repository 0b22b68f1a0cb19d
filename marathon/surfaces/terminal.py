"""The surface on a terminal: one key press answers a gate. An interruption is no answer, and neither is a sentence."""

from __future__ import annotations

import shutil
import signal
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from marathon.core.comments import Comment, lines_said, see
from marathon.core.gates import Offer
from marathon.core.records import Answer
from marathon.core.text import clean, one_line
from marathon.errors import MarathonError
from marathon.git.writes import Kept
from marathon.process.keys import Keys
from marathon.process.signals import Interrupted, Signals
from marathon.show.markdown import document_rows
from marathon.surfaces.base import Elsewhere, GateView, Sight
from marathon.surfaces.comment import ask_comment
from marathon.surfaces.gate_text import describe, fitted
from marathon.surfaces.menu import Key, Option, Options, gate_pages, in_sight, key_name, options_of, with_all_keys
from marathon.surfaces.pager import edit_document, open_page, page
from marathon.surfaces.paint import ASKS_TWICE, HINT, colored, link, paint, paint_diff, paint_head
from marathon.surfaces.text_prompt import add_to_draft, ask_files, ask_text, discard, draft_text
from marathon.surfaces.typed import Typed, read_typed

READ_AGAIN = 0.5
QUIET = 0.3  # seconds without a key, after which the keys meant for a pager or an editor are over
CANCEL = "Press x again to cancel this run for good. Any other key keeps the run."
_READABLE = 100  # columns; longer lines are hard to follow
QUIT = "Press q again to quit the marathon. Any other key stays here."
QUIT_ELSEWHERE = (
    "q ends the marathon that you only watch (b leaves it). Press q again to end it. Any other key stays here."
)
MOVE_BACK = "Move the branch back to {commit}? Press y to do it. Any other key leaves the branch as it is."
PENDING = "Not sent: {ids} · [r] Send back (redo {phase}) · [a] Approve with these notes · Other keys: keep reviewing"


_NONE = Answer(choice="refresh")
_STAYS_OPEN = ("quit", "refresh", "oversight")  # answers that do not close a gate
KEPT = " What you typed is kept for this gate. Esc discards it."


class TerminalSurface:
    interactive = True

    def __init__(self, signals: Signals, draft: Path) -> None:
        self._signals = signals
        self._drafts = draft
        self._draft = draft  # of the gate at hand
        self._on_screen = ""  # the gate that was shown last
        self._unfinished = False  # a sentence was typed, and no Enter has ended it
        self._was_outside = False  # in a pager or an editor just now, so that late keys are not for us
        self._looked = False  # in a pager, before this key: a q may have been meant for it

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        try:
            return self._ask(view, elsewhere)
        except (OSError, termios.error) as gone:  # the window was closed, which is no answer
            raise EOFError from gone

    def _ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        self._begin_draft(view.gate.token)
        options = options_of(view)

        def laid_out() -> list[str]:
            return [_linked(paint_head(each), view) for each in gate_pages(view, *shutil.get_terminal_size())]

        def whole() -> str:
            return laid_out()[-1]

        def more() -> str:
            return _linked(paint_head(with_all_keys(view, *shutil.get_terminal_size())), view)

        def hint() -> str:
            keys = [key_name(each.key) for each in in_sight(view)]
            return paint(_fitted(f"{', '.join(keys)} · ? shows the options"), HINT)

        shown = hint
        this = view.gate.token + "\n".join(describe(replace(view, summary="", comments=())))  # which an edit changes
        if self._on_screen != this:
            if early := self._paged(laid_out, view, elsewhere):
                return self._without_draft(early)
            shown, self._on_screen, self._unfinished = whole, this, False
        while True:
            pressed = self._pressed(shown(), whole, options, elsewhere)
            shown = hint
            if pressed == "?":
                shown, self._looked = lambda: f"{more()}{_told_code(view)}", False
            if isinstance(pressed, Typed):
                pressed = self._with_text(view.offers[0], pressed.text)
            elif isinstance(pressed, str) and pressed in options:
                pressed = self._chosen(options[pressed], view, whole, options, elsewhere)
            if isinstance(pressed, Answer):
                return self._without_draft(self._or_an_earlier(pressed, elsewhere))

    def _paged(self, laid_out: Callable[[], list[str]], view: GateView, elsewhere: Elsewhere) -> Answer | None:
        """Show all pages but the last. An answer if one came meanwhile, from elsewhere or by leaving."""
        keys = {" ": Key(" ", "go on"), "enter": Key("enter", "go on")}
        turning: Options = {**keys, **{each.key: each for each in view.offers if each.choice == "quit"}}
        for nth in range(len(laid_out()) - 1):

            def page_at(nth: int = nth) -> str:
                every = laid_out()
                left = f"Page {min(nth + 1, len(every))} of {len(every)} · [Space] go on · [q] quit"
                return f"{every[min(nth, len(every) - 1)]}\n{paint(left, HINT)}"

            pressed = ""
            while pressed not in keys:
                heard = self._pressed(page_at(), page_at, turning, elsewhere)
                if isinstance(heard, Answer):
                    return heard
                pressed = heard if isinstance(heard, str) else ""
                if pressed in turning and pressed not in keys:
                    return Answer(choice="quit")
        return None

    def _begin_draft(self, token: str) -> None:
        """A draft belongs to its gate. The drafts of other gates are over with these."""
        self._draft = self._drafts.with_stem(f"{self._drafts.stem}-{token}")
        for other in self._drafts.parent.glob(f"{self._drafts.stem}*{self._drafts.suffix}"):
            if other != self._draft:
                other.unlink(missing_ok=True)

    def _without_draft(self, answer: Answer) -> Answer:
        """What was typed and not sent ends with its gate."""
        if answer.choice not in _STAYS_OPEN and (unsent := discard(self._draft)):
            print(f"Not sent: {clean(unsent)}", flush=True)
        return answer

    def _or_an_earlier(self, answer: Answer, elsewhere: Elsewhere) -> Answer:
        """The first answer counts, and one may have come from elsewhere while the human typed this one."""
        other = elsewhere() if answer.choice not in ("quit", "cancel", "refresh") else None
        if other is None or other.choice == "refresh" or answer == other:
            return answer
        if answer.text:
            add_to_draft(answer.text, self._draft)
        print(f"An answer from {_source(other)} was first.", flush=True)
        return other

    def _pressed(
        self, shown: str, again: Callable[[], str], options: Options, elsewhere: Elsewhere, *, confirms: str = ""
    ) -> str | Typed | Answer | None:
        """A key that stands for something, the beginning of an answer, or an answer from elsewhere.

        Any other text is kept and offered as feedback. While a key `confirms`, every other one ends the waiting.
        After a Ctrl+Z, `again` is shown.
        """
        answers = any(isinstance(each, Offer) and each.choice == "answer" for each in options.values())

        def begins_answer(text: str) -> bool:
            return answers and not confirms and (len(text) > 1 or text.lower() not in options)

        with Keys(on_resume=lambda: print(again(), flush=True), pastes_apart=True) as keys:
            while self._was_outside:
                self._was_outside = keys.read(QUIET, self._signals) is not None
            print(shown, flush=True)  # only now, because what was typed earlier is dropped, so that it cannot answer
            while True:
                answer = elsewhere()
                if answer is not None:
                    print(_from_elsewhere(answer), flush=True)
                    return answer
                first = keys.read(READ_AGAIN, self._signals)
                if first is None:
                    continue
                if first == "esc" and not confirms and draft_text(self._draft):
                    self._unfinished = False
                    print(f'Discarded: "{clean(discard(self._draft))}"', flush=True)
                    continue
                typed = read_typed(keys, first, self._signals, begins_answer)
                key = typed.key.lower() if typed else ""
                if confirms and (key or not typed):
                    return key
                if typed and begins_answer(typed.text):
                    return typed
                if key == "enter" and self._unfinished:
                    self._unfinished = False
                    print(f"{self._offered(options)}\nPress Enter again to go on without it.", flush=True)
                elif key and (key in options or key == "?"):
                    return key
                elif typed and key and (key == "enter" or not typed.entered):
                    print(f"{key_name(typed.key)} is not one of the options. ? shows them.", flush=True)
                elif typed and typed.text.strip():
                    add_to_draft(typed.text, self._draft, "" if self._unfinished else "\n")
                    self._unfinished = not typed.entered
                    print(self._offered(options), flush=True)
                    if confirms:
                        return ""

    def _offered(self, options: Options) -> str:
        """What was typed, and the keys that take it."""
        taking = [each for each in options.values() if isinstance(each, Offer) and each.words != "none"]
        near = [each for each in taking if each.key in "fr"] or taking
        then = {"f": next(each.label for each in options.values() if isinstance(each, Offer))}  # what Enter does
        ways = " · ".join(f"[{each.key}] {then.get(each.key) or each.label.partition(':')[0]}" for each in near)
        if "c" in options:
            ways += " · [c] comment"
        ways += " · [Esc] discard"
        said = f'You typed: "{one_line(draft_text(self._draft))}".\nSend it as feedback? {ways}'
        return paint(_fitted(said), HINT)

    def _chosen(
        self, option: Option, view: GateView, again: Callable[[], str], options: Options, elsewhere: Elsewhere
    ) -> Answer | None:
        """The answer that a key stands for, or None if the key only showed something."""
        looked, self._looked = self._looked, False
        if isinstance(option, Sight):
            self._outside(lambda: look(option))
            self._looked = True
            return None
        if isinstance(option, Key):
            return self._done(option.key, view, elsewhere)
        if option.choice == "continue" and option.words == "none" and (pending := _pending(view)):
            ids = ", ".join(each.id for each in pending)
            shown = paint(_fitted(PENDING.format(ids=ids, phase=view.gate.phase)), ASKS_TWICE)
            key = self._pressed(shown, lambda: f"{again()}\n{shown}", options, elsewhere, confirms="r")
            if key == "r":
                return Answer(choice="redo", phase=view.gate.phase, text=see(pending))
            if key != "a":
                return key if isinstance(key, Answer) else None
        if once_more := QUIT_ELSEWHERE if view.visited and option.choice == "quit" else _once_more(option, looked):
            shown = paint(_fitted(once_more), ASKS_TWICE)
            key = self._pressed(shown, lambda: f"{again()}\n{shown}", options, elsewhere, confirms=option.key)
            if key != option.key:  # Enter was meant as a no, not as an approval
                return key if isinstance(key, Answer) else None
        if option.choice == "undo":
            return self._undo(view, options, elsewhere)
        if option.words == "none":
            return Answer(choice=option.choice, phase=option.phase)
        return self._with_text(option, instead=see(_pending(view)) if option.choice == "redo" else "")

    def _done(self, key: str, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        """What a key of the terminal's own does."""
        if key == "e" and view.at_hand:
            document = view.at_hand
            self._outside(lambda: print(clean(edit_document(document)), flush=True))
            return self._anew(elsewhere)
        if key == "b" and view.leave:
            view.leave()
            return Answer(choice="refresh")
        if key == "u" and view.put_back:
            print(clean(view.put_back()), flush=True)
        if key == "w":
            self._outside(lambda: open_page(view.task, lambda: (elsewhere() or _NONE).choice != "refresh"))
        if key == "c" and view.commenting:
            made = ask_comment(view.commenting, self._draft, self._signals)
            self._unfinished = False
            if made is None:
                print(f"Nothing was saved.{self._kept()}", flush=True)
                return None
            lines = lines_said(made.first, made.last) if made.first else "as a whole"
            kind = " (must be answered)" if made.kind == "must" else ""
            print(f"Saved: {made.id} on {clean(made.file)} {lines}{kind}.", flush=True)
            return self._anew(elsewhere)
        return None

    def _undo(self, view: GateView, options: Options, elsewhere: Elsewhere) -> Answer | None:
        """The files that the human ticks after a look at the diff, and the branch after a yes of its own."""
        found: list[Kept] = []

        def look_at_it() -> None:
            found.append(view.kept())
            page(paint_diff(clean(found[0].diff or "No file is changed any more.")))

        self._outside(look_at_it)
        if not found:
            return None
        kept = found[0]
        names = ask_files("Undo which files? (a patch is kept)", kept.files, self._signals) if kept.files else []
        head: str | Typed | Answer | None = ""
        if names is not None and kept.back_to:
            shown = paint(_fitted(MOVE_BACK.format(commit=clean(kept.back_to))), ASKS_TWICE)
            head = self._pressed(shown, lambda: shown, options, elsewhere, confirms="y")
            if isinstance(head, Answer):
                return head
        elif kept.fixed:
            print(f"The branch stays where it is. {kept.fixed}", flush=True)
        if names or head == "y":
            return Answer(choice="undo", files=names or [], head=head == "y")
        print("Nothing was undone.", flush=True)
        return None

    def _anew(self, elsewhere: Elsewhere) -> Answer:
        """A look at the gate anew, unless it was answered while the human was busy."""
        answer = elsewhere() or _NONE
        if answer.choice != "refresh":
            print(_from_elsewhere(answer), flush=True)
        return answer

    def _with_text(self, offer: Offer, begun: str = "", instead: str = "") -> Answer | None:
        """The answer with its words; `instead` stands for words that may be left out."""
        text = ask_text(offer.ask, self._draft, self._signals, begun)
        self._unfinished = False
        if text is not None:
            text = text.strip() or instead
        if text is None or (not text.strip() and (offer.words == "required" or offer.choice == "answer")):
            print(f"Nothing was recorded.{self._kept()} Choose again.", flush=True)
            return None
        return Answer(choice=offer.choice, phase=offer.phase, text=text.strip())

    def _kept(self) -> str:
        return KEPT if draft_text(self._draft) else ""

    def _outside(self, show: Callable[[], None]) -> None:
        """Run a pager or an editor. A Ctrl+C typed there does not end the marathon, and a Ctrl+Z stops us too."""
        self._was_outside = True
        try:
            with self._signals.lent():
                show()
        except OSError as error:
            print(f"Could not show it: {error.strerror}.", flush=True)
        except MarathonError as error:
            print(error, flush=True)
        for signum in self._signals.take():
            if signum in (signal.SIGTERM, signal.SIGHUP):
                raise Interrupted(signum)


def _told_code(view: GateView) -> str:
    return f"\nFrom another shell it is answered with --code {view.code()}" if view.code else ""


def _pending(view: GateView) -> list[Comment]:
    """Comments that were not sent, where the human decides whether they are a no or go along."""
    sends_back = any(offer.choice == "redo" and offer.phase == view.gate.phase for offer in view.offers)
    return view.commenting.not_sent() if view.commenting and sends_back and view.gate.onward == "next" else []


def _linked(head: str, view: GateView) -> str:
    """The file names of a gate as links, where the terminal may know them."""
    for path in filter(None, (view.document, view.log)):
        head = head.replace(f": {path}", f": {link(str(path), path)}", 1)
    return head


def _from_elsewhere(answer: Answer) -> str:
    if answer.choice == "refresh":
        return "The files changed."
    return f"{'Asked to stop' if answer.choice == 'quit' else 'Answered'} from {_source(answer)}."


def _source(answer: Answer) -> str:
    return "the page" if answer.by == "page" else "another shell"


def _fitted(text: str) -> str:
    return fitted(text, shutil.get_terminal_size().columns)


def _once_more(offer: Offer, looked: bool) -> str:
    """The question before a key that is hard to take back, or that may have been meant for a pager."""
    if offer.choice == "cancel":
        return CANCEL
    if offer.choice == "quit" and looked:
        return QUIT
    return f"{offer.label}? Press {offer.key} again to do it. Any other key does nothing." if offer.heavy else ""


def look(sight: Sight) -> None:
    """Through the user's pager, laid out for reading. A log is read from its end."""
    text = sight.read()
    if sight.form == "document":
        columns = shutil.get_terminal_size().columns
        text = "\n".join(document_rows(text, min(columns, _READABLE), columns, colored()))
    elif sight.form == "diff":
        text = paint_diff(clean(text))
    page(text, from_end=sight.form == "log")
