"""Only the browser of the human who read the terminal gets in, once per word; every other way is refused."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil

from tests.process.driver import until
from tests.support.world import World, plan, research
from tests.web.site import Client, Site

Web = Callable[..., Site]


def test_an_address_works_once_and_leaves_a_cookie_that_no_script_and_no_other_port_can_have(web: Web) -> None:
    site = web()
    client = Client(site.port)
    came = client.get(site.address)
    assert came.status == 303
    base = came.headers["location"].rstrip("/")
    assert "token" not in base
    said = came.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert f"path={base.lower()}" in said  # other ports of 127.0.0.1 do not know this path
    assert client.get(f"{base}/").status == 200
    assert Client(site.port).get(site.address).status == 403  # used up
    assert Client(site.port).get(f"{base}/").status == 403  # no cookie
    assert client.get("/", Cookie="").status == 200  # the form that asks for the word
    assert Client(site.port).get("/in?token=aaaaaaaaaaaa").status == 403
    typed = Client(site.port)
    word = site.another_address().rpartition("=")[2]
    assert typed.post("/", token=word).status == 303
    site.terminal.send(b"\x03")
    assert site.terminal.wait() == 0


def test_who_signs_in_again_can_still_send_what_an_open_window_holds(web: Web, world: World) -> None:
    world.script(research())
    world.run()
    site = web()
    client = site.client()
    client.open_task()
    client.get(site.another_address())  # another window of the same browser
    sent = client.post(f"{client.task}/comment", doc="research.md", on="", say="typed before", kind="note")
    assert sent.status == 303
    assert "typed before" in world.read("human.md")


def test_wrong_words_are_answered_ever_later_and_lock_no_one_out(web: Web) -> None:
    site = web()

    def guess(number: int) -> float:
        began = time.monotonic()
        assert Client(site.port).get("/in?token=guess").status == 403
        return time.monotonic() - began

    assert guess(0) < 1.0  # a human's mistake
    with ThreadPoolExecutor(30) as many:
        guesses = many.map(guess, range(30))
        until(lambda: guess(0) >= 1.5, "a guess takes longer")
        began = time.monotonic()
        assert Client(site.port).get(site.address).status == 303
        assert time.monotonic() - began < 1.0
        list(guesses)


def test_what_a_stranger_sends_is_refused_before_it_is_read(web: Web, world: World) -> None:
    """Only the headers are sent, and the answer comes."""
    world.script(research())
    world.run()
    client = web().client()
    client.open_task()
    strange = "marathon=no"
    sent = {
        "no cookie": (f"{client.task}/verdict", "", 3_900_000, 403),
        "wrong cookie": (f"{client.task}/verdict", f"{client.cookie[:-3]}xyz", 3_900_000, 403),
        "another page": (f"{client.task}/verdict", client.cookie, 3_900_000, 403),
        "a stranger's word": ("/in", "", 11_000, 413),
        "too much of ours": (f"{client.task}/comment", client.cookie, 4_000_001, 413),
    }
    for name, (path, cookie, length, status) in sent.items():
        origin = "http://example.org" if name == "another page" else f"http://127.0.0.1:{client.port}"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nOrigin: {origin}\r\n"
        head += f"Cookie: {cookie or strange}\r\nContent-Length: {length}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
            connection.sendall(head.encode())
            assert int(connection.recv(1000).split()[1]) == status, name


def test_every_request_is_checked(web: Web, world: World) -> None:
    world.script(research())
    world.run()
    client = web().client()
    client.open_task()
    gate, port = client.gate(), client.port
    verdict = {"gate": gate, "answer": "continue"}
    where = f"{client.task}/verdict"
    refused = {
        "no origin": client.post(where, {"Origin": "null"}, **verdict),
        "other origin": client.post(where, {"Origin": "http://example.org"}, **verdict),
        "other port": client.post(where, {"Origin": f"http://127.0.0.1:{port + 1}"}, **verdict),
        "no csrf": client.post(where, **{**verdict, "csrf": ""}),
        "wrong csrf": client.post(where, **{**verdict, "csrf": client.csrf[:-1] + "x"}),
        "no cookie": client.post(where, {"Cookie": ""}, **verdict),
        "wrong cookie": client.post(where, {"Cookie": f"{client.cookie}x"}, **verdict),
        "other name": client.post(where, {"Host": f"evil.example:{port}"}, **verdict),
        "broken name": client.post(where, {"Host": "[::"}, **verdict),
        "no port": client.post(where, {"Host": "127.0.0.1"}, **verdict),
        "by get": client.get(f"{where}?gate={gate}&answer=continue&csrf={client.csrf}"),
        "read by another name": client.get(client.task, Host=f"rebound.example:{port}"),
        "other method": client._ask("PUT", where, "", {}),
    }
    assert {name: answer.status for name, answer in refused.items() if answer.status < 400} == {}
    assert not list((world.task / ".marathon/inbox").glob("*.json"))
    page = client.get(client.task)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "access-control-allow-origin" not in page.headers
    assert not re.search(r"<script(?! src=\"/static/page.js\" defer></script>)| style=| on\w+=", page.body)
    assert client.get("/static/../auth.py").status == 404
    assert client.get(f"{client.base}/task/../../etc/passwd").status == 404
    assert (
        client.post(where, {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}, **verdict).status == 303
    )


def test_the_page_does_not_start_for_an_agent_or_a_program(web: Web, world: World) -> None:
    line = " ".join(world.argv("review"))
    said = world.agent / "said"
    hidden = f"script -qec 'env -u MARATHON_RUNNER_ID {line}' /dev/null"
    world.script(research(run=f"({line}; timeout 20 {hidden}) > {said} 2>&1"), plan())
    world.run()
    assert said.read_text().count("'review' is for the human") == 2
    assert "token=" not in said.read_text()
    without = world.cli("review")
    assert without.returncode == 2
    assert "needs a terminal" in without.stderr


def test_the_secret_is_in_no_file_argument_or_environment(web: Web, world: World) -> None:
    site = web()
    client = site.client()
    secrets = [client.cookie.partition("=")[2], client.base.strip("/"), site.another_address().rpartition("=")[2]]
    process = psutil.Process(site.terminal.pid)
    open_to_all = " ".join(process.cmdline()) + " ".join(process.environ().values())
    found = subprocess.run(["grep", "-rlF", *(f"-e{each}" for each in secrets), world.home.parent], capture_output=True)
    assert found.stdout == b""
    assert not any(secret in open_to_all for secret in secrets)


def test_review_leads_to_the_task(web: Web, world: World) -> None:
    world.script(research())
    world.run()
    site = web("task")
    client = Client(site.port)
    came = client.get(site.address + site.wanted)
    assert "Your review of research" in client.get(came.headers["location"]).body


def test_over_ssh_the_line_for_the_tunnel_is_printed(web: Web) -> None:
    site = web(SSH_CONNECTION="10.0.0.1 5 10.0.0.2 22")
    assert f"ssh -L {site.port}:127.0.0.1:{site.port} " in site.told


def test_a_passphrase_is_needed_for_every_verdict(web: Web, world: World) -> None:
    world.script(research(), plan())
    world.run()
    client = web("--passphrase", typed=b"correct horse\n").client()
    assert 'type="password"' in client.open_task()
    verdict = {"gate": client.gate(), "answer": "continue"}
    wrong = client.post(f"{client.task}/verdict", **verdict, passphrase="battery", words="keep these words")
    assert (wrong.status, "keep these words" in wrong.body) == (409, True)
    assert "That is not the passphrase" in wrong.body
    assert client.post(f"{client.task}/verdict", **verdict, passphrase="correct horse").status == 303


def test_without_the_packages_a_sentence_says_what_to_install_and_reports_work(world: World) -> None:
    missing = "import sys; sys.modules['uvicorn'] = sys.modules['starlette'] = None; from marathon.cli.main import main"
    python = world.argv()[0]
    script = f"{python} -P -c \"{missing}; main(['review'])\"; {python} -P -c \"{missing}; main(['report', 'task'])\""
    argv = ["script", "-qec", script, "/dev/null"]
    done = subprocess.run(argv, cwd=world.project, env=world.env(), capture_output=True, text=True, timeout=60)
    assert "pip install 'pi-marathon[web]'" in done.stdout
    assert "<title>task</title>" in done.stdout
