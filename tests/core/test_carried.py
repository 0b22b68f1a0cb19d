"""What a new worktree is given from the human's tree: what may be a secret, and which links may come."""

from __future__ import annotations

import pytest

from marathon.core.carried import gathered, lies_in, may_be_secret, stays_inside


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (".env", True),
        (".env.local", True),
        ("conf/prod.env", True),
        ("keys/server.pem", True),
        ("id_ed25519", True),
        ("aws-credentials.json", True),
        ("secrets/a.txt", True),
        ("conf/app.toml", False),
        ("environment.ts", False),
        ("keyboard.py", False),
    ],
)
def test_names_that_may_hold_a_secret(name: str, secret: bool) -> None:
    assert may_be_secret(name) is secret


def test_a_long_list_is_told_by_its_folders_and_still_names_the_secrets_of_the_project() -> None:
    many = [f"node_modules/p{n}/tokens.js" for n in range(600)]
    found = gathered([*many, ".env", "conf/.env"])
    assert found == [".env", "conf/", "conf/.env", "node_modules/"] or len(found) <= 505
    assert {".env", "conf/.env", "node_modules/"} <= set(found)
    assert lies_in("node_modules/p1/tokens.js", found)
    assert not lies_in("src/node_modules", found)


@pytest.mark.parametrize(
    ("name", "target", "stays"),
    [
        ("a/b", "../c", True),
        ("a", "c/d", True),
        ("a/b", "../../c", False),
        ("a", "/home/me/project/c", False),
        ("a", ".git/config", False),
        ("a/b", "../x/../../c", False),
    ],
)
def test_a_link_is_copied_only_where_it_says_the_same_in_the_copy(name: str, target: str, stays: bool) -> None:
    assert stays_inside(name, target) is stays
