"""The job for a project without code: prose files end in one newline and their lines in no blanks."""

_PROSE = (".txt", ".md", ".rst")


def untidy_line(path: str, text: str) -> int:
    """The first line that is to be tidied, 0 where there is none."""
    if not path.endswith(_PROSE) or not text or "\r" in text:
        return 0
    if text == tidied(path, text):
        return 0
    before, after = (each.removesuffix("\n").split("\n") for each in (text, tidied(path, text)))
    differing = (number for number, line in enumerate(before, 1) if line not in after[number - 1 : number])
    return next(differing, len(before))


def tidied(path: str, text: str) -> str:
    lines = [_without_blanks(line, is_markdown=path.endswith(".md")) for line in text.split("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _without_blanks(line: str, is_markdown: bool) -> str:
    """Two blanks or more at the end of a Markdown line are a line break, so they stay."""
    bare = line.rstrip(" \t")
    end = line[len(bare) :]
    return line if is_markdown and bare and len(end) > 1 and "\t" not in end else bare


def contents_page(files: list[tuple[str, int]]) -> str:
    """An overview of a project's files."""
    rows = [f"| `{path}` | {lines} |" for path, lines in files]
    return "\n".join(["# Contents", "", "| File | Lines |", "|---|---|", *rows, ""])
