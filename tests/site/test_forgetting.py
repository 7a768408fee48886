"""Forget means forget: an attacker with the database, with the secret of today, with an old copy; and every byte."""

from __future__ import annotations

import hmac
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest
from starlette.testclient import TestClient

from tests import within
from tests.arena.engines import sql
from tests.site.sites import SECRET, SmallSite, form_in, hidden_fields, small_site, vote_once, vote_page
from tests.site.test_reasons import explain
from tiltyard.arena import DAY, KEPT, SECOND, Arena, EntryRules, Limits, Policy, SettingsChanged, clock, limits_of
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.policy import RetentionRules
from tiltyard.arena.store import Outside, Quota, Store, hashed, make_invitations, site_texts
from tiltyard.arena.store.database import SCHEMA
from tiltyard.arena.store.erasing import TABLES as ERASABLE
from tiltyard.arena.store.forgetting import TABLES, forget_everybody, forget_networks, forget_voters, tidy
from tiltyard.arena.store.outside import deletion
from tiltyard.arena.writing.commands import CloseExpired
from tiltyard.errors import StoreError
from tiltyard.site.networks import networks_of
from tiltyard.site.visitors import derived_key

HOME, OFFICE = "203.0.113.77", "198.51.100.7"
COMMENT, REPORT = "Jane Roe of 5 Elm Street wrote this", "she is called Jane Roe"


@dataclass
class Person:
    """Somebody who voted, commented and reported, and what an attacker would look for."""

    client: TestClient
    voter: str
    traces: tuple[str, ...]


def somebody(site: SmallSite, address: str) -> Person:
    """A visitor who did all that a visitor can do."""
    before = {row[0] for row in sql(site.url, "SELECT voter FROM voters")}
    client = site.client(address)
    where = vote_once(client)
    assert explain(client, where, comment=COMMENT).status_code == 303
    sent = {**form_in(client.get("/").text), "side": "A", "reason": REPORT}
    assert client.post("/report", data=sent).status_code in (200, 303)
    (voter,) = {str(row[0]) for row in sql(site.url, "SELECT voter FROM voters")} - before
    (cookie,) = sql(site.url, f"SELECT cookie_hash FROM voters WHERE voter = '{voter}'")
    return Person(client, voter, (str(cookie[0]), COMMENT, REPORT))


def forget_me(person: Person) -> None:
    token = hidden_fields(person.client.get("/me").text)["token"]
    assert person.client.post("/me/forget", data={"token": token}).status_code == 303


def found(url: str, secrets: list[str], addresses: tuple[str, ...] = (HOME, OFFICE)) -> set[tuple[str, str]]:
    """Which voters an attacker with a database finds behind which networks, by trying them under these secrets."""
    keys, blocks = sql(url, "SELECT key FROM address_keys"), dict(sql(url, "SELECT name, key FROM address_blocks"))
    served = sql(url, "SELECT voter, block FROM matchups UNION SELECT voter, vote_block FROM matchups")
    result = set()
    for secret in secrets:
        own = derived_key(secret, "visitors' addresses")
        for address in addresses:
            name = hmac.digest(own, networks_of(address)[1].encode(), "sha256").hex()
            for (key,) in keys:
                block = blocks.get(hmac.digest(bytes.fromhex(str(key)), name.encode(), "sha256").hex())
                result |= {(str(voter), address) for voter, seen in served if block and seen == block}
    return result


def counted(url: str, secrets: list[str], addresses: tuple[str, ...] = (HOME, OFFICE)) -> set[str]:
    """From which addresses the same attacker finds that somebody voted, by the counts of limits."""
    keys = [bytes.fromhex(str(key)) for (key,) in sql(url, "SELECT key FROM address_keys WHERE purpose = 'limits'")]
    names = {str(key).rpartition(":")[2] for (key,) in sql(url, "SELECT key FROM counters WHERE key LIKE 'vote:%'")}
    result = set()
    for address in addresses:
        for own in (derived_key(secret, "visitors' addresses") for secret in secrets):
            name = hmac.digest(own, networks_of(address)[0].encode(), "sha256").hex()
            if not names.isdisjoint(hmac.digest(key, name.encode(), "sha256").hex()[:32] for key in keys):
                result.add(address)
    return result


def bytes_of(url: str) -> bytes:
    """All bytes of a SQLite arena and of what lies beside it."""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def texts_in(url: str) -> list[str]:
    """Every text in the database that might be a secret."""
    return [str(text) for row in sql(url, "SELECT name, text FROM site_texts") for text in row]


@pytest.fixture
def site_with_limits(arena_url: str) -> Iterator[SmallSite]:
    with small_site(arena_url, rate_limit=True, secret="") as site:
        yield site


def secret_of(site: SmallSite) -> str:
    return site.arena.store.outside.secrets(date.today())


def test_the_database_alone_tells_no_network_and_with_todays_secret_nobodys_who_is_forgotten(
    site_with_limits: SmallSite,
) -> None:
    site = site_with_limits
    ann, bob = somebody(site, HOME), somebody(site, OFFICE)
    assert found(site.url, texts_in(site.url)) == set()
    secret = secret_of(site)
    assert found(site.url, [secret]) == {(ann.voter, HOME), (bob.voter, OFFICE)}, "the attack works"
    forget_me(ann)
    assert found(site.url, [secret]) == {(bob.voter, OFFICE)}
    new = somebody(site, HOME)
    assert found(site.url, [secret]) == {(new.voter, HOME), (bob.voter, OFFICE)}
    blocks = dict(sql(site.url, "SELECT DISTINCT voter, vote_block FROM matchups WHERE vote_seq > 0"))
    assert blocks[ann.voter] != blocks[new.voter], "the new visitor has another key"
    tidy(site.arena.store, clock() + 8 * DAY)
    assert found(site.url, [secret]) == set(), "after a week nothing of it can be tried any more"
    assert verify(site.url).clean


def test_the_database_alone_tells_no_address_and_with_todays_secret_only_those_of_26_hours(
    site_with_limits: SmallSite,
) -> None:
    site = site_with_limits
    forget_me(somebody(site, HOME))
    somebody(site, OFFICE)
    assert counted(site.url, texts_in(site.url)) == set()
    assert counted(site.url, [secret_of(site)]) == {HOME, OFFICE}, "the attack works, for the forgotten too"
    tidy(site.arena.store, clock() + 26 * DAY // 24)
    assert counted(site.url, [secret_of(site)]) == set()


def test_forgetting_oneself_again_and_again_gives_no_network_more_than_one_more_key(
    site_with_limits: SmallSite,
) -> None:
    site = site_with_limits
    for address in (HOME, HOME, HOME, OFFICE, OFFICE, OFFICE):
        forget_me(somebody(site, address))
    assert len(sql(site.url, "SELECT DISTINCT vote_block FROM matchups WHERE vote_seq > 0")) == 3, "two and the pool"
    tried = found(site.url, [secret_of(site)])
    voters = {voter for voter, _ in tried}
    assert len(voters) == 4, "the first of each network is found in none"
    assert tried == {(voter, address) for voter in voters for address in (HOME, OFFICE)}, "the others, in all alike"


def test_forgetting_leaves_votes_and_nothing_else(site_with_limits: SmallSite) -> None:
    site = site_with_limits
    ann, bob = somebody(site, HOME), somebody(site, OFFICE)
    assert f":{ann.voter}" in str(sql(site.url, "SELECT key FROM counters"))
    forget_me(ann)
    for table in ("voters", "counters", "invitations", "site_texts"):
        assert ann.voter not in str(sql(site.url, f"SELECT * FROM {table}")), table
    assert sql(site.url, "SELECT text FROM texts WHERE kind = 'comment'") == [(COMMENT,)], "the other's"
    assert sorted(sql(site.url, "SELECT reason FROM reports")) == [("",), (REPORT,)]
    assert sql(site.url, "SELECT voter FROM voters") == [(bob.voter,)]
    assert verify(site.url).votes == 2
    assert verify(site.url).clean


def test_after_a_deletion_elsewhere_nothing_more_is_taken_of_the_forgotten(site_with_limits: SmallSite) -> None:
    site = site_with_limits
    ann, bob = somebody(site, HOME), somebody(site, OFFICE)
    fields = form_in(ann.client.get("/").text)
    ((voted,),) = sql(site.url, f"SELECT id FROM matchups WHERE voter = '{ann.voter}' AND vote_seq > 0")
    with closing(Store.open(site.url)) as other_process:
        forget_voters(other_process, [ann.voter])
    tables = ("matchups", "voters", "counters", "address_blocks", "reports", "texts")
    before = [sorted(sql(site.url, f"SELECT * FROM {table}")) for table in tables]
    for path, sent in (
        ("/vote", {"choice": "A"}),
        ("/skip", {}),
        ("/report", {"side": "B", "reason": REPORT}),
        ("/reasons", {"matchup_id": voted, "comment": COMMENT}),
    ):
        assert ann.client.post(path, data={**fields, **sent}).status_code == 404, path
    assert [sorted(sql(site.url, f"SELECT * FROM {table}")) for table in tables] == before
    assert "so far" not in ann.client.get("/me").text
    assert "Start voting" in ann.client.get("/").text
    site.arena.submit(CloseExpired(clock() + DAY)).result()
    counted = str(sql(site.url, "SELECT key FROM counters"))
    assert (ann.voter in counted, f"skip:session:3600:{bob.voter}" in counted) == (False, True)


def test_a_program_that_was_forgotten_elsewhere_starts_anew_with_a_new_cookie(site_with_limits: SmallSite) -> None:
    site = site_with_limits
    client = site.client(HOME)
    first = client.post("/api/v1/matchups").json()["matchup_id"]
    ((cookie, voter),) = sql(site.url, "SELECT cookie_hash, voter FROM voters")
    with closing(Store.open(site.url)) as other_process:
        forget_voters(other_process, [str(voter)])
    again = client.post("/api/v1/matchups")
    assert (again.status_code, "set-cookie" in again.headers) == (201, True)
    ((new_cookie, new_voter),) = sql(site.url, "SELECT cookie_hash, voter FROM voters")
    assert (new_cookie == cookie, new_voter == voter) == (False, False)
    assert client.post(f"/api/v1/matchups/{first}/vote", json={"choice": "A"}).status_code == 404


def test_counts_are_kept_for_26_hours_at_most_as_the_table_says() -> None:
    longest = max(limit.window for limit in limits_of(Limits()))
    assert Quota("", 1, longest // SECOND).window == 26 * 3600 * SECOND
    assert sum("26 hours at most" in kept.until for kept in KEPT) == 2


@pytest.mark.parametrize(("rules", "ahead"), [(RetentionRules(network_days=2), 0), (RetentionRules(), 400)])
def test_no_network_is_known_for_longer_than_the_rules_of_today_say_by_the_clock_of_today(
    sqlite_url: str, rules: RetentionRules, ahead: int
) -> None:
    def known() -> set[str]:
        return {voter for voter, _ in found(sqlite_url, [SECRET])}

    with small_site(sqlite_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        now = clock() - ahead * DAY
        tidy(site.arena.store, clock(), RetentionRules())
        assert known() == {ann.voter}, "what holds is left"
        tidy(site.arena.store, now, rules)
        assert (known(), counted(sqlite_url, [SECRET])) == (set(), set() if ahead else {HOME})
        assert bool(sql(sqlite_url, "SELECT * FROM counters WHERE key LIKE 'vote:session:%'")) != bool(ahead)
        bob = somebody(site, HOME)
        assert known() == {bob.voter}, "a running site makes new keys"


def test_no_byte_of_who_is_forgotten_stays_in_the_files(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        ann = somebody(site, HOME)
        keys = [str(row[0]) for row in sql(site.url, "SELECT key FROM address_keys")]
        before = bytes_of(sqlite_url)
        assert all(trace.encode() in before for trace in (*ann.traces, *keys))
        forget_me(ann)
        after = bytes_of(sqlite_url)
        assert not [trace for trace in ann.traces if trace.encode() in after]
        tidy(site.arena.store, clock() + 8 * DAY)
        after = bytes_of(sqlite_url)
        assert not [key for key in keys if key.encode() in after]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_postgresql_writes_the_tables_anew_so_that_no_byte_stays_in_their_files(
    postgresql_url: str, tmp_path: Path, elsewhere: bool
) -> None:
    def in_files() -> bytes:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            query = "SELECT pg_read_binary_file(pg_relation_filepath(%s::regclass))"
            names = [*TABLES, *(f"{name}_pkey" for name in TABLES)]
            return b"".join(connection.execute(query, (name,)).fetchone()[0] for name in names)  # type: ignore[index]

    with small_site(postgresql_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        assert all(trace.encode() in in_files() for trace in ann.traces)
        if elsewhere:
            assert within.run(tmp_path, "arena", "forget", ann.voter, "--db", postgresql_url).returncode == 0
        else:
            forget_me(ann)
        tidy(site.arena.store, clock(), RetentionRules())  # as the site does every six hours
        assert not [trace for trace in ann.traces if trace.encode() in in_files()]


def test_postgresql_samples_nothing_that_may_be_deleted(postgresql_url: str) -> None:
    with small_site(postgresql_url, rate_limit=True) as site:
        people = [somebody(site, f"203.0.{number}.7") for number in range(3)]
        sql(postgresql_url, "ANALYZE")
        samples = sql(postgresql_url, "SELECT tablename, most_common_vals::text, histogram_bounds::text FROM pg_stats")
    assert all(person.voter in str(samples) for person in people), "the keys in the log"
    assert not [trace for person in people for trace in person.traces if trace in str(samples)]
    assert not {name for name, *_ in samples} & {*TABLES, *ERASABLE}


def test_while_somebody_reads_traces_stay_until_the_next_tidying(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        reader = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM voters").fetchone()
        forget_me(ann)
        assert site.arena.store.database.purge_due
        reader.execute("COMMIT")
        reader.close()
        tidy(site.arena.store, clock())
        assert not [trace for trace in ann.traces if trace.encode() in bytes_of(sqlite_url)]


def test_an_invitation_for_one_goes_with_whoever_used_it_and_one_for_many_stays(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        site.arena.append([SettingsChanged(policy=Policy(entry=EntryRules(invitation_only=True)))])
        site.observatory.refresh()
        store = site.arena.store
        (own,) = make_invitations(store, 1, now=clock(), label="Ann Example")
        (shared,) = make_invitations(store, 1, now=clock(), most=0, label="the course")
        (plain,) = make_invitations(store, 1, now=clock())
        clients = [site.client() for _ in range(4)]
        for client, link in zip(clients, (own, shared, shared, plain), strict=True):
            assert client.post("/api/v1/matchups", headers={"x-invitation": link}).status_code == 201
        keys = [str(row[0]) for row in sql(site.url, "SELECT voter FROM voters ORDER BY created_at")]
        folder = Path(sqlite_url.removeprefix("sqlite:///")).parent
        done = within.run(folder, "arena", "forget", keys[0], "--db", site.url)
        assert done.returncode == 0, done.stderr
        for trace in ("Ann Example", hashed(own)):
            assert trace.encode() not in bytes_of(site.url), trace
        assert sorted(sql(site.url, "SELECT label FROM invitations")) == [("",), ("the course",)]
        done = within.run(folder, "arena", "forget", "--invitation", "the course", "--db", site.url)
        assert done.returncode == 0, done.stderr
        assert "2 links from cookies to votes, 1 invitation," in done.stdout
        for command in (("forget", "--invitation"), ("invite", "--revoke")):
            unnamed = within.run(folder, "arena", *command, "", "--db", site.url)
            assert (unnamed.returncode, "''" in unnamed.stderr) == (1, True), (
                "no name is not the name of all without one"
            )
        assert sql(site.url, "SELECT voter FROM voters") == [(keys[3],)]
        assert sql(site.url, "SELECT label, revoked_at FROM invitations") == [("", None)]
        assert b"the course" not in bytes_of(site.url)
        mistaken = within.run(folder, "arena", "forget", "nobody", "--db", site.url)
        assert "nothing leads from the key 'nobody' to anybody" in mistaken.stderr
        assert "forget whom?" in within.run(folder, "arena", "forget", "--db", site.url).stderr


def test_who_was_away_for_long_is_forgotten_like_whoever_asks_for_it(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        done = tidy(site.arena.store, clock() + 401 * DAY, RetentionRules())
        assert (done.voters, done.comments, done.reports) == (1, 1, 1)
        assert not [trace for trace in ann.traces if trace.encode() in bytes_of(sqlite_url)]


def test_the_file_about_oneself_has_everything_and_names_no_model_too_early(site_with_limits: SmallSite) -> None:
    site = site_with_limits
    ann = somebody(site, HOME)
    site.observatory.refresh()
    answer = ann.client.get("/me/data")
    assert answer.headers["content-disposition"].startswith("attachment")
    about = json.loads(answer.text)
    assert about["voter"] == ann.voter
    assert about["cookie_hash"] == ann.traces[0]
    assert [one["comment"] for one in about["comments"]] == [COMMENT]
    assert [one["reason"] for one in about["reports"]] == [REPORT]
    assert {one["of"].split(":")[0] for one in about["counts"]} >= {"vote", "matchup"}
    (network,) = about["networks"]
    assert network["key"] in {one["network_of_vote"] for one in about["matchups"]}
    voted, waiting = about["matchups"]
    ((served,), *_) = sql(site.url, "SELECT body FROM events WHERE kind = 'matchup_served' ORDER BY seq")
    assert (voted["choice"], voted["prompt_id"]) == ("A", json.loads(str(served))["prompt_id"])
    assert voted["model_a"] is not None
    receipt = ann.client.get(f"/api/v1/matchups/{voted['matchup_id']}").json()["receipt"]
    assert (voted["receipt"], waiting["receipt"]) == (receipt, None)
    assert (waiting["status"], waiting["model_a"], waiting["model_b"]) == ("open", None, None)
    forget_me(ann)
    assert json.loads(ann.client.get("/me/data").text) == {}
    assert json.loads(site.client().get("/me/data").text) == {}


def test_the_privacy_page_has_a_row_for_all_that_is_kept(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        page = site.client().get("/privacy").text
    for kept in KEPT:
        assert kept.what in page, kept.what
    assert "after 7 days at most" in page
    assert "nothing to consent to" in page
    tables = {line.split()[2] for line in SCHEMA.read_text().splitlines() if line.startswith("CREATE TABLE")}
    assert set(TABLES) < tables


# --- Copies -----------------------------------------------------------------------------------------------------------


def backup(site: SmallSite, tmp_path: Path) -> str:
    done = within.run(tmp_path, "arena", "backup", "--db", site.url, "--out", "old.db")
    assert done.returncode == 0, done.stderr
    return f"sqlite:///{tmp_path / 'old.db'}"


def test_an_old_copy_with_todays_secret_tells_no_network(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        somebody(site, HOME)
        copy = backup(site, tmp_path)
        assert found(site.url, [secret_of(site)])
        assert found(copy, [secret_of(site)]) == set()
        assert counted(copy, [secret_of(site)]) == set()
        for (key,) in sql(site.url, "SELECT key FROM address_keys"):
            assert str(key).encode() not in bytes_of(copy)
    assert verify(copy).clean


def test_a_restored_copy_forgets_again_whoever_was_forgotten_since(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann, bob = somebody(site, HOME), somebody(site, OFFICE)
        cookie = ann.client.cookies[site.cookies.name]
        copy = backup(site, tmp_path)
        forget_me(ann)
        listed = site.arena.store.outside.deletions_path
        assert listed.stat().st_mode & 0o777 == 0o600
        assert ann.voter not in listed.read_text()
    with small_site(copy, rate_limit=True) as site:
        site.observatory.refresh()
        old = site.client()
        old.headers["cookie"] = f"{site.cookies.name}={cookie}"
        assert "so far" not in old.get("/me").text
        assert sql(copy, "SELECT voter FROM voters") == [(bob.voter,)]
        assert ann.traces[0].encode() not in bytes_of(copy)
        assert len(sql(copy, "SELECT * FROM texts WHERE kind = 'comment'")) == 1


@pytest.mark.parametrize("command", ["reports", "invite", "validity", "weekly", "tidy", "backup --out new.db"])
def test_a_command_that_opens_an_older_copy_forgets_again_first(sqlite_url: str, tmp_path: Path, command: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        copy = backup(site, tmp_path)
        forget_me(ann)
    done = within.run(tmp_path, "arena", *command.split(), "--db", copy)
    assert done.returncode == 0, done.stderr
    assert COMMENT not in done.stdout
    assert sql(copy, "SELECT voter FROM voters") == []
    assert all(trace.encode() not in bytes_of(copy) for trace in ann.traces)


def test_a_copy_from_before_an_invitation_was_used_forgets_its_voters_too(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann, _ = somebody(site, HOME), somebody(site, OFFICE)
        copy = backup(site, tmp_path)
        (link,) = make_invitations(site.arena.store, 1, now=clock(), label="Ann Example")
        assert ann.client.post("/api/v1/matchups", headers={"x-invitation": link}).status_code in (200, 201)
        done = within.run(tmp_path, "arena", "forget", "--invitation", "Ann Example", "--db", site.url)
        assert done.stdout.startswith("deleted: 1 link from")
    Arena.open(copy).close()
    assert len(sql(copy, "SELECT voter FROM voters")) == 1
    assert ann.traces[0].encode() not in bytes_of(copy)


def test_a_deletions_file_without_its_last_newline_loses_none(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        people = [somebody(site, address) for address in (HOME, OFFICE)]
        copy, listed = backup(site, tmp_path), site.arena.store.outside.deletions_path
        for person in people:
            forget_me(person)
            listed.write_bytes(listed.read_bytes().rstrip(b"\n"))
    Arena.open(copy).close()
    assert sql(copy, "SELECT voter FROM voters") == []


def test_a_note_that_was_cut_off_anywhere_deletes_nothing_and_the_next_one_is_whole(sqlite_url: str) -> None:
    with closing(Store.open(sqlite_url)) as store:
        outside = store.outside
    outside.note_deleted(("voter", "ann"))
    first, before = outside.deletions_path.read_bytes(), outside.deletions()
    outside.note_deleted(("invitation", "course"), ("voter", "bob"), ("voter", "eve"))
    second = outside.deletions_path.read_bytes()[len(first) :]
    for kept in range(len(second) - 1):
        outside.deletions_path.write_bytes(first + second[:kept])
        assert outside.deletions() == before, kept
        outside.note_deleted(("voter", "cyd"))
        assert outside.deletions()[0] == before[0] | {deletion("voter", "cyd")}, kept


@pytest.mark.parametrize(
    "line", ["voter 12ab", "voter", f"voter {'a' * 64}", f"visitor {'a' * 64}", "all of them", f"text {'A' * 64}"]
)
def test_a_malformed_line_of_deletions_is_one_clear_error(sqlite_url: str, tmp_path: Path, line: str) -> None:
    with closing(Store.open(sqlite_url)) as store:
        store.outside.note_deleted(("voter", "x"))
        path = store.outside.deletions_path
        path.write_text(f"{path.read_text()}{line}\n")
    told = within.run(tmp_path, "arena", "tidy", "--db", sqlite_url)
    assert told.returncode == 1
    assert f"line 2 of the deletions in {path} is malformed: {line!r}" in told.stderr
    assert told.stdout == ""


def test_what_is_noted_of_the_forgotten_leads_to_no_public_key(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        ann = somebody(site, HOME)
        forget_me(ann)
        assert deletion("voter", ann.voter) not in site.arena.store.outside.deletions()[0]


@pytest.mark.parametrize("instead", ["", "I meant the other one"])
def test_a_restored_copy_brings_no_comment_back_that_was_withdrawn_or_replaced(
    sqlite_url: str, tmp_path: Path, instead: str
) -> None:
    with small_site(sqlite_url) as site:
        client = site.client(HOME)
        where = vote_once(client)
        assert explain(client, where, comment=COMMENT).status_code == 303
        copy = backup(site, tmp_path)
        assert explain(client, where, comment=instead).status_code == 303
    assert sql(copy, "SELECT text FROM texts WHERE kind = 'comment'") == [(COMMENT,)]
    for url, left in ((copy, []), (sqlite_url, [(instead,)] if instead else [])):
        Arena.open(url).close()
        assert sql(url, "SELECT text FROM texts WHERE kind = 'comment'") == left
    assert COMMENT.encode() not in bytes_of(copy)


def test_without_the_list_of_deletions_one_command_forgets_everybody(arena_url: str, tmp_path: Path) -> None:
    with small_site(arena_url, rate_limit=True) as site:
        people = [somebody(site, address) for address in (HOME, OFFICE)]
        shutil.rmtree(site.arena.store.outside.folder, ignore_errors=True)
        asked = within.run(tmp_path, "arena", "forget", "--all", "--db", site.url)
        assert (asked.returncode, len(sql(arena_url, "SELECT * FROM voters"))) == (1, 2)
        assert "pass --yes" in asked.stderr
        done = within.run(tmp_path, "arena", "forget", "--all", "--yes", "--db", site.url)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("deleted: 2 links")
    sql(arena_url, "DELETE FROM counters WHERE key IN ('probe', 'keys changed')")
    for table in ("voters", "texts WHERE kind = 'comment'", "counters", "address_blocks", "address_keys"):
        assert sql(arena_url, f"SELECT * FROM {table}") == [], table
    assert {reason for (reason,) in sql(arena_url, "SELECT reason FROM reports")} == {""}
    if arena_url.startswith("sqlite"):
        left = bytes_of(arena_url)
        assert not [trace for person in people for trace in person.traces if trace.encode() in left]
    assert verify(arena_url).votes == 2


@pytest.mark.parametrize("ahead", [-400, 0, 400])
def test_all_of_an_older_copy_are_forgotten_and_nobody_who_comes_later_whatever_the_clock_says(
    sqlite_url: str, tmp_path: Path, ahead: int
) -> None:
    copies = [(sqlite_url, 1)]
    with small_site(sqlite_url) as site:
        for number in range(2):
            somebody(site, HOME)
            (folder := tmp_path / f"{number}").mkdir()
            copies.append((backup(site, folder), 0))
            forget_everybody(site.arena.store, clock() + ahead * DAY)
            assert sql(sqlite_url, "SELECT * FROM voters") == []
        somebody(site, HOME)
    for url, left in copies:
        Arena.open(url).close()
        assert len(sql(url, "SELECT * FROM voters")) == left
        assert len(sql(url, "SELECT * FROM texts WHERE kind = 'comment'")) == left


# --- The secret -------------------------------------------------------------------------------------------------------


def test_the_secret_is_in_a_file_for_its_owner_alone_and_not_in_the_database(sqlite_url: str) -> None:
    with small_site(sqlite_url, secret="") as site:
        path = site.arena.store.outside.key_path
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert secret_of(site).encode() not in bytes_of(sqlite_url)


@pytest.mark.parametrize("kept", [0, 10, 42, 43 + 15])
def test_a_key_file_that_was_cut_off_starts_no_site_and_the_doctor_names_it(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.delenv("TILTYARD_SECRET", raising=False)
    with closing(Store.open(sqlite_url)) as store:
        path = store.outside.key_path
        store.outside.make_secret()
        store.outside.change_secret(date.today())
    path.write_text(path.read_text()[:kept])
    with pytest.raises(StoreError, match=path.name), small_site(sqlite_url, secret=""):
        pass
    told = within.run(tmp_path, "arena", "new-secret", "--db", sqlite_url)
    assert (told.returncode, path.name in told.stderr) == (1, True)
    told = within.run(tmp_path, "arena", "doctor", "--db", sqlite_url)
    (line,) = (line for line in told.stdout.splitlines() if line.startswith("repair  secrets"))
    assert path.name in line
    path.unlink()
    with small_site(sqlite_url, secret=""):
        assert path.stat().st_size == 44


def test_the_doctor_names_a_secret_in_the_environment_that_no_site_starts_with(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTYARD_SECRET", f"{SECRET},")
    told = within.run(tmp_path, "arena", "doctor", "--db", sqlite_url)
    assert "repair  secrets" in told.stdout
    assert SECRET not in told.stdout


def test_secrets_that_are_changed_one_after_the_other_leave_visitors_what_is_theirs(
    sqlite_url: str, tmp_path: Path
) -> None:
    told = within.run(tmp_path, "arena", "new-secret", "--db", sqlite_url)
    assert (told.returncode, told.stdout, "no key file" in told.stderr) == (1, "", True), (
        "another user has it, or nobody"
    )
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        ann = somebody(site, HOME)
        cookie, first = ann.client.cookies[site.cookies.name], secret_of(site)
    for _ in range(2):
        assert within.run(tmp_path, "arena", "new-secret", "--db", sqlite_url).returncode == 0
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        client = site.client()
        client.headers["cookie"] = f"{site.cookies.name}={cookie}"
        assert client.get("/me/data").json()["voter"] == ann.voter
        outside = site.arena.store.outside
        assert outside.secrets(date.today() + timedelta(30)).split(",")[2:] == [first]
        assert outside.secrets(date.today() + timedelta(31)).count(",") == 0


def test_a_cookie_lasts_a_year_after_the_last_vote(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        client = site.client()
        assert client.post("/api/v1/matchups").status_code == 201
        cookie = client.cookies[site.cookies.name]
        said = client.post("/vote", data={**form_in(vote_page(client).text), "choice": "A"}).headers["set-cookie"]
        assert f"{site.cookies.name}={cookie};" in said
        assert f"Max-Age={365 * 86_400};" in said
        for address in ("/me", "/leaderboard", "/"):
            assert "set-cookie" not in client.get(address).headers, "looking does not"


def test_a_site_without_its_key_file_says_that_the_secret_is_new(sqlite_url: str) -> None:
    with closing(Store.open(sqlite_url)) as store:
        assert "starts anew" in store.outside.about_secret()
        store.outside.make_secret()
        assert store.outside.about_secret() == (
            f"the secret that signs cookies is in {store.outside.key_path}: leave it out of backups"
        )


def test_a_new_secret_drops_what_was_made_under_the_old_and_visitors_keep_what_is_theirs(
    sqlite_url: str, tmp_path: Path
) -> None:
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        ann = somebody(site, HOME)
        cookie, old = ann.client.cookies[site.cookies.name], secret_of(site)
        assert found(sqlite_url, [old])
    told = within.run(tmp_path, "arena", "new-secret", "--db", sqlite_url)
    assert told.returncode == 0, told.stderr
    assert old not in told.stdout + told.stderr
    assert sql(sqlite_url, "SELECT * FROM address_blocks") == []
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        site.observatory.refresh()
        new, _, kept = secret_of(site).partition(",")
        assert (new != old, kept) == (True, old)
        client = site.client()
        client.headers["cookie"] = f"{site.cookies.name}={cookie}"
        page = client.get("/me")
        assert "1 vote so far" in page.text
        assert "set-cookie" in page.headers
        outside = site.arena.store.outside
        assert outside.secrets(date.today() + timedelta(30)) == f"{new},{old}"
        assert outside.secrets(date.today() + timedelta(31)) == new
    assert found(sqlite_url, [old, new]) == set()


def test_what_a_site_makes_under_the_old_secret_until_it_is_restarted_goes_too(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        old = secret_of(site)
        assert within.run(tmp_path, "arena", "new-secret", "--db", sqlite_url).returncode == 0
        somebody(site, HOME)
        assert found(sqlite_url, [old])
    with small_site(sqlite_url, rate_limit=True, secret="") as site:
        assert secret_of(site).endswith(f",{old}")
        assert (found(sqlite_url, [old]), counted(sqlite_url, [old])) == (set(), set())


def test_another_secret_in_the_environment_drops_it_too_at_the_next_start(arena_url: str) -> None:
    with small_site(arena_url, rate_limit=True) as site:
        somebody(site, HOME)
    with small_site(arena_url, rate_limit=True) as site:
        assert found(arena_url, [SECRET]), "the same secret: nothing is dropped"
    with small_site(arena_url, rate_limit=True, secret=f"quite another secret,{SECRET}"):
        assert found(arena_url, [SECRET, "quite another secret"]) == set()
        for table in ("address_keys", "address_blocks"):
            assert sql(arena_url, f"SELECT * FROM {table}") == []


def test_several_hosts_that_change_the_secret_in_two_steps_leave_visitors_what_is_theirs(sqlite_url: str) -> None:
    new = "quite another secret"
    both, turned = f"{SECRET},{new}", f"{new},{SECRET}"
    jar = None
    for secrets in ((SECRET, both), (both, both), (both, turned), (turned, turned)):
        with (
            small_site(sqlite_url, rate_limit=True, secret=secrets[0]) as one,
            small_site(sqlite_url, rate_limit=True, secret=secrets[1]) as other,
        ):
            for site in (one, other, one):
                client = site.client()
                client.cookies = jar  # type: ignore[assignment]
                vote_once(client)
                jar = client.cookies
    assert len(sql(sqlite_url, "SELECT voter FROM voters")) == 1


def test_with_one_key_mistyped_or_forgotten_before_nobody_is_forgotten(sqlite_url: str, tmp_path: Path) -> None:
    with small_site(sqlite_url) as site:
        ann, bob = somebody(site, HOME), somebody(site, OFFICE)
        forget_me(bob)
        noted = site.arena.store.outside.deletions()
        for wrong in (ann.voter[:-1], bob.voter):
            told = within.run(tmp_path, "arena", "forget", ann.voter, wrong, "--db", sqlite_url)
            assert (told.returncode, repr(wrong) in told.stderr) == (1, True)
        assert sql(sqlite_url, "SELECT voter FROM voters") == [(ann.voter,)]
        assert site.arena.store.outside.deletions() == noted


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_deleted(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with small_site(sqlite_url) as site:
        ann = somebody(site, HOME)
        token = hidden_fields(ann.client.get("/me").text)["token"]
        assert ann.client.post("/me/forget", data={"token": token}).status_code == 503
        assert sql(sqlite_url, "SELECT voter FROM voters") == [(ann.voter,)]
    told = within.run(tmp_path, "arena", "forget", "--all", "--yes", "--db", sqlite_url)
    assert told.returncode == 1
    assert "Let XDG_STATE_HOME name a folder that stays." in told.stderr


# --- Kills ------------------------------------------------------------------------------------------------------------


def _forget_everybody(url: str) -> None:
    forget_everybody(Store.open(url), clock())


def _forget_each(url: str) -> None:
    store = Store.open(url)
    forget_voters(store, [str(row[0]) for row in sql(url, "SELECT voter FROM voters")])


def _change_secret(url: str) -> None:
    store = Store.open(url)
    store.outside.change_secret(date.today())
    forget_networks(store)


WRITES = {"execute", "executemany", "commit", "write", "flush", "truncate", "fsync", "replace", "link"}
"""Calls into the system or the database, by name, after which the disk may be another."""


def killed(work: Callable[[str], object], url: str, before: int) -> bool:
    """Whether a process that does it was ended before its n-th write, at once and without a word."""

    def at_work() -> None:
        calls = count(1)

        def end(_: object, event: str, called: object) -> None:
            if event == "c_call" and getattr(called, "__name__", "") in WRITES and next(calls) == before:
                os._exit(77)

        sys.setprofile(end)
        work(url)

    process = get_context("fork").Process(target=at_work)
    process.start()
    process.join()
    assert process.exitcode in (0, 77)
    return process.exitcode == 77


def state_of(url: str) -> tuple[bool, ...]:
    """What is there of visitors, and of networks."""
    asked = (
        "SELECT count(*) FROM voters",
        "SELECT count(*) FROM texts WHERE kind = 'comment'",
        "SELECT count(*) FROM reports WHERE reason <> ''",
        "SELECT count(*) FROM counters WHERE key LIKE '%session%' AND key NOT LIKE 'session:address%'",
    )
    ((*counts,),) = sql(url, f"SELECT {', '.join(f'({query})' for query in asked)}")
    return tuple(map(bool, counts))


@pytest.mark.parametrize("everybody", [False, True])
def test_whoever_is_being_forgotten_when_the_process_is_killed_is_forgotten_or_not_at_all(
    filled_url: str, tmp_path: Path, everybody: bool
) -> None:
    with small_site(filled_url, rate_limit=True) as site:
        for number in range(3):
            somebody(site, f"203.0.{number}.7")
        arena = site.arena.store.outside.arena
    kept, states, outside = Path(filled_url.removeprefix("sqlite:///")), set(), Outside(arena)
    for number in count(1):
        url = f"sqlite:///{shutil.copy(kept, tmp_path / f'{number}.db')}"
        outside.deletions_path.unlink(missing_ok=True)
        more = killed(_forget_everybody if everybody else _forget_each, url, number)
        state = state_of(url)
        assert set(state) in ({True}, {False}), (number, state)
        states.add(state[0])
        noted = any(outside.deletions())
        assert noted or state[0], "nothing is deleted that was not noted before"
        Arena.open(url).close()
        assert set(state_of(url)) == {not noted}, "what was begun is completed"
        if not more:
            break
    assert verify(url).clean
    assert states == {True, False}, "some were killed before it, and some after"


def test_a_secret_that_is_being_changed_when_the_process_is_killed_is_changed_or_not_at_all(
    filled_url: str, tmp_path: Path
) -> None:
    with small_site(filled_url, rate_limit=True, secret="") as site:
        somebody(site, HOME)
        outside = site.arena.store.outside
    kept, changed = Path(filled_url.removeprefix("sqlite:///")), set()
    text = outside.key_path.read_text()
    for number in count(1):
        url = f"sqlite:///{shutil.copy(kept, tmp_path / f'{number}.db')}"
        outside.key_path.write_text(text)
        more = killed(_change_secret, url, number)
        secrets = outside.secrets(date.today()).split(",")
        assert secrets[-1] == text.strip()
        changed.add(len(secrets) == 2)
        with closing(Store.open(url)) as store:
            site_texts.site_secrets(store, "", date.today())
        counted = "counters WHERE key LIKE 'vote:address%'"
        there = [bool(sql(url, f"SELECT * FROM {table}")) for table in ("address_keys", "address_blocks", counted)]
        assert there == [len(secrets) == 1] * 3, (number, there)
        if not more:
            break
    assert changed == {True, False}


# --- A clock that jumped ----------------------------------------------------------------------------------------------


def test_events_ahead_of_now_are_named_by_the_doctor_and_voting_goes_on(filled_url: str, tmp_path: Path) -> None:
    ahead = lambda: clock() + 9 * DAY  # noqa: E731
    with Arena(Store.open(filled_url), now=ahead) as arena:
        arena.append([SettingsChanged(policy=Policy())])
    with small_site(filled_url) as site:
        vote_once(site.client())
        assert site.client().get("/healthz").json()["status"] == "ready"
    told = within.run(tmp_path, "arena", "doctor", "--db", filled_url).stdout
    assert "look    clock" in told
    assert "1 event is up to 9 days ahead of now" in told
    assert verify(filled_url).clean


def test_without_a_jump_nothing_is_said_of_the_clock(filled_url: str, tmp_path: Path) -> None:
    with small_site(filled_url) as site:
        vote_page(site.client())
    assert "ahead of now" not in within.run(tmp_path, "arena", "doctor", "--db", filled_url).stdout
