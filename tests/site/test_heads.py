"""What a site publishes that outlives its operator: heads and the witness; and the files that operators install."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from tests.arena.engines import sql
from tests.cli.conftest import Run, tiltyard
from tests.forked import PATIENCE_SECONDS
from tests.processes import wait_until
from tests.records import replace
from tests.site.administrators import staffed_site
from tests.site.sites import IDENTIFYING, QUICK, SCRAPER, SmallSite, live_site, said, vote_once
from tests.stand_in import program
from tiltyard.arena import Arena, Choice, Head, HeadFile, KeptProof, PhaseChanged, check_witness, new_key, read_witness
from tiltyard.arena.audit import state_head
from tiltyard.arena.store import record_head
from tiltyard.arena.store.public_log import record_hourly
from tiltyard.arena.study import observatory

__all__ = ["program", "tiltyard"]

DEPLOY = Path(__file__).parents[2] / "deploy"


@contextmanager
def answering(files: dict[str, bytes]) -> Iterator[str]:
    """The address of a host that has these files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def sign(site: SmallSite) -> tuple[Head, str]:
    """Publish a signed head, as the nightly job does; the head and the public key."""
    pem, public = new_key()
    new = state_head(site.arena.store, site.arena.now(), title="Test arena", pem=pem)
    record_head(site.arena.store, new, site.arena.now())
    return new.head, public


def test_the_witness_of_a_site_leads_to_the_heads_that_it_publishes(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    for choice in "ABA":
        vote_once(client, choice)
    record_hourly(sqlite_site.arena.store, sqlite_site.arena.now())
    vote_once(client, "A")
    _, public = sign(sqlite_site)
    sqlite_site.observatory.refresh()
    published = client.get("/api/v1/heads").json()
    assert published["keys"] == [public]
    heads = [Head.parse(row["head"]) for row in published["heads"]]
    assert [bool(row["signed"]) for row in published["heads"]] == [True, False]
    file = HeadFile(**published["heads"][0]["signed"])
    assert (file.wrong(), file.key) == ("", public)
    answer = client.get("/api/v1/witness.jsonl")
    assert answer.headers["x-log-head"] == str(heads[0])
    lines = answer.content.splitlines(keepends=True)
    header, found = read_witness(lines, "the site")
    assert (header.title, found.problems) == ("Test arena", [])
    assert check_witness(lines, "the site", KeptProof(heads=heads, keys=[public]), [file]).problems == []
    page = client.get("/heads").text
    assert all(str(head) in page for head in heads)
    assert public in page


def test_a_site_that_runs_publishes_the_head_of_the_hour(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    vote_once(sqlite_site.client())
    assert sqlite_site.client().get("/api/v1/heads").json()["heads"] == []
    monkeypatch.setattr(observatory, "HEAD_SECONDS", 0.0)
    with observatory.Observatory(sqlite_site.url, pace=replace(QUICK, board_seconds=0.01)):
        until = time.monotonic() + PATIENCE_SECONDS
        while not (heads := sqlite_site.client().get("/api/v1/heads").json()["heads"]):
            assert time.monotonic() < until, "no head was published"
            time.sleep(0.02)
            sqlite_site.observatory.refresh()
    answer = sqlite_site.client().get("/api/v1/witness.jsonl")
    assert [row["head"] for row in heads] == [answer.headers["x-log-head"]]


def test_a_witness_ends_where_the_board_does(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    vote_once(client)
    first = client.get("/api/v1/witness.jsonl").content
    vote_once(client)
    assert client.get("/api/v1/witness.jsonl").content == first
    sqlite_site.observatory.refresh()
    later = client.get("/api/v1/witness.jsonl").content
    assert len(later) > len(first)
    assert client.get("/api/v1/witness.jsonl").content == later


def test_nothing_in_heads_or_witness_tells_a_text_or_which_of_two_answers_was_whose(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    open_one = client.post("/api/v1/matchups").json()
    skipped = client.post("/api/v1/matchups").json()
    client.post(f"/api/v1/matchups/{skipped['matchup_id']}/skip")
    vote_once(sqlite_site.client())
    sign(sqlite_site)
    for address in ("/heads", "/api/v1/heads", "/api/v1/witness.jsonl"):
        text = client.get(address).text
        for hidden in (said(0, 0), f"{IDENTIFYING[0]}/p"):
            assert hidden not in text, (address, hidden)
        for matchup in (open_one, skipped):
            assert matchup["matchup_id"] not in text
            assert matchup["prompt"][:9] not in text


def test_verify_takes_the_address_of_a_site(sqlite_url: str, tiltyard: Run) -> None:
    with live_site(sqlite_url) as address, Arena.open(sqlite_url) as arena:
        matchup = arena.serve("somebody")
        arena.vote(matchup.matchup_id, "somebody", Choice.A)
        arena.append([PhaseChanged(phase=3)])
        pem, public = new_key()
        new = state_head(arena.store, arena.now(), pem=pem)
        record_head(arena.store, new, arena.now())
        wait_until(lambda: str(new.head) in urlopen(f"{address}/api/v1/heads").read().decode())
        done = tiltyard("verify", address, "--head", str(new.head), "--key", public)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "gives 1 board stated in heads" in done.stdout
        other = tiltyard("verify", address, "--head", f"{'0' * 64}@{new.head.rows}")
        assert (other.returncode, "something up to it was changed" in other.stdout) == (3, True)
        assert tiltyard("verify", f"{address}/nowhere.jsonl").returncode == 1
        assert "no page of the site was compared with it" in done.stdout
        witness, heads = (urlopen(address + path).read() for path in ("/api/v1/witness.jsonl", "/api/v1/heads"))
    published = json.loads(heads)
    false = [{**published["heads"][0], "head": f"{'b' * 64}@1"}, *published["heads"][1:]]
    for body, told in (
        (heads, "agrees with itself"),
        (json.dumps({**published, "heads": false}).encode(), "something up to it was changed"),
        (b"<html>", "is no list of heads"),
        (b"null", "is no list of heads"),
        (b'{"heads":[1]}', "is no list of heads"),
    ):
        with answering({"/api/v1/witness.jsonl": witness, "/api/v1/heads": body}) as place:
            done = tiltyard("verify", place)
        assert told in done.stdout + done.stderr
        assert (done.returncode == 0) == (body is heads)
        assert "Traceback" not in done.stderr


def test_a_voter_is_told_the_receipt_with_which_the_vote_is_found(sqlite_site: SmallSite) -> None:
    """Once it is final, and nobody else; it is not the id in the address of the page, which people share."""
    client, stranger = sqlite_site.client(), sqlite_site.client()
    shown = client.post("/api/v1/matchups").json()
    name = shown["matchup_id"]
    client.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A", "reveal": False})
    assert "receipt" not in client.get(f"/api/v1/matchups/{name}").json()
    assert "Receipt" not in client.get("/me").text
    client.post(f"/api/v1/matchups/{name}/reveal")
    receipt = client.get(f"/api/v1/matchups/{name}").json()["receipt"]
    sqlite_site.observatory.refresh()
    assert receipt in client.get(f"/votes/{name}").text
    assert receipt in client.get("/me").text
    assert stranger.get(f"/api/v1/matchups/{name}").status_code == 404
    lines = client.get("/api/v1/witness.jsonl").content.splitlines(keepends=True)
    assert name not in b"".join(lines).decode()
    assert check_witness(lines, "the site", KeptProof(receipts=[f"{receipt}=A"])).problems == []
    assert (
        "recorded as A, not as B" in check_witness(lines, "the site", KeptProof(receipts=[f"{receipt}=B"])).problems[0]
    )


METRIC = re.compile(r"\btiltyard_[a-z_]+")


def test_every_metric_that_alerts_and_dashboard_name_exists(sqlite_url: str) -> None:
    with staffed_site(sqlite_url) as site:
        vote_once(site.client())
        sign(site)
        text = site.client().get("/metrics", headers=SCRAPER).text
    known = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    for file in ("prometheus-rules.yml", "grafana-dashboard.json"):
        named = set(METRIC.findall((DEPLOY / file).read_text(encoding="utf-8")))
        assert named - known == set(), file
        assert len(named) > 8


def expressions() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text(encoding="utf-8"))
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]] + [
        target["expr"] for panel in board["panels"] for target in panel["targets"]
    ]


FUNCTIONS = {"rate", "increase", "sum", "max", "min", "min_over_time", "max_over_time"}


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_is_written_as_prometheus_reads_it(expression: str) -> None:
    """Brackets match, functions exist, and what needs a range of time has one; counters are never compared raw."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    for opening, closing in ("()", "[]", "{}"):
        assert bare.count(opening) == bare.count(closing)
    called = set(re.findall(r"\b([a-z_]+) *(?:by \([a-z, ]+\) *)?\(", bare)) - {"by", "and"}
    assert called <= FUNCTIONS
    for name in ("rate", "increase", "min_over_time", "max_over_time"):
        for inside in re.findall(rf"\b{name}\(([^()]*(?:\([^()]*\)[^()]*)*)\)", bare):
            assert re.search(r"\[[0-9]+[smhd](:[0-9]+[smhd])?\]\Z", inside), inside
    for counter in re.findall(r"\btiltyard_[a-z_]+_total\b", bare):
        assert re.search(rf"(rate|increase)\((max\()?{counter}", bare), counter


def test_the_alert_rules_have_the_fields_that_prometheus_allows() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text(encoding="utf-8"))["groups"]
    assert set(group) == {"name", "rules"}
    for rule in group["rules"]:
        assert (
            {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        )
        assert re.fullmatch(r"[0-9]+[smhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("page", "warn")
        assert rule["annotations"]["summary"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)


def units() -> list[Path]:
    return sorted(file for file in DEPLOY.iterdir() if file.suffix in (".service", ".timer"))


def test_the_units_are_hardened_and_every_timer_has_its_service() -> None:
    for file in units():
        unit = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(file, encoding="utf-8")
        if file.suffix == ".timer":
            assert file.with_suffix(".service") in units()
            assert unit["Timer"]["Persistent"] == "true"
            continue
        for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
            assert unit["Service"][name] == "yes", (file.name, name)
        assert unit["Service"]["ProtectSystem"] == "strict"
        assert unit["Service"]["CapabilityBoundingSet"] == ""


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    for file in units():
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={shutil.which('true')}", text)
        text = re.sub(r"(?m)^(EnvironmentFile|User|Group)=.*\n", "", text)
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / file.name) for file in units())], capture_output=True, text=True
    )
    about_us = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "tiltyard" in line]
    assert about_us == [], done.stderr


def test_the_backup_job_copies_checks_and_publishes_and_finds_a_rewritten_log(
    sqlite_site: SmallSite, tmp_path: Path, program: Path
) -> None:
    """The shipped script, with the command of this installation: once, and once more after the log was changed."""
    vote_once(sqlite_site.client())
    out = tmp_path / "backup"
    assert (DEPLOY / "backup.sh").stat().st_mode & stat.S_IXUSR
    pem, _ = new_key()
    (tmp_path / "key.pem").write_bytes(pem)
    environment = {
        **os.environ,
        "TILTYARD_DB": sqlite_site.url,
        "TILTYARD_BIN": str(program),
        "BACKUP_DIR": str(out),
        "HEAD_KEY": str(tmp_path / "key.pem"),
        "PUBLISH_HEAD": f"cp -t {tmp_path}",
    }

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(DEPLOY / "backup.sh")], env=environment, capture_output=True, text=True)

    first = run()
    assert first.returncode == 0, first.stderr
    assert len(list(tmp_path.glob("head-*.json"))) == 1
    (copy,) = out.glob("arena-*.db")
    copy.rename(out / "arena-the-night-before.db")  # a copy is named after its second, and a test is quick
    sql(sqlite_site.url, "UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE kind = 'voted'")
    second = run()
    assert second.returncode != 0
    assert "cut or rewritten" in second.stderr
    assert len(list(tmp_path.glob("head-*.json"))) == 1, "a head of a changed log is not published"
