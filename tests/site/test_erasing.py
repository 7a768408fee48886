"""Erased means erased: every byte of the data, all pages and files made since, an old copy, a kill at any moment."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import within
from tests.arena.engines import open_arena, play, sql
from tests.arena.small_worlds import START, Log
from tests.records import replace
from tests.site.administrators import at_the_desk, vote_often
from tests.site.board_fixtures import MODELS, retire, week_of_votes
from tests.site.sites import SmallSite, small_site
from tests.site.test_forgetting import bytes_of, killed
from tests.sizes import size
from tiltyard.arena import Arena, clock
from tiltyard.arena import events as e
from tiltyard.arena.audit import state_head, witness_lines
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.events import Erasable
from tiltyard.arena.simulation.ledger import FIRST_DAY, fill_log
from tiltyard.arena.store import Outside, Store, erase, record_head
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.public_log import record_hourly
from tiltyard.errors import OptionError
from tiltyard.reports import keep_finished_weeks

KINDS = ("prompt", "answer", "replaced", "file", "model", "reason")
PAGES = (
    *("/", "/leaderboard", "/validity", "/history", "/methods", "/bank", "/data", "/validity/weeks", "/heads"),
    *("/api/v1/leaderboard", "/api/v1/battles.jsonl", "/api/v1/validity", f"/api/v1/models/{MODELS[0]}"),
    *(f"/models/{MODELS[0]}?prompt={prompt}" for prompt in ("p1", "p2", "built")),
    *(f"/compare?a={MODELS[0]}&b={MODELS[1]}&prompt={prompt}" for prompt in ("p1", "p2", "built")),
)
DESK = ("", "/models", "/prompts", "/reports", "/screening", "/settings")


@dataclass(frozen=True)
class Marked:
    """An arena of which every text has a word that is nowhere else."""

    url: str
    words: dict[str, str]
    ids: dict[str, tuple[Erasable, str]]


def long_text(word: str, filler: str = "") -> str:
    """A text that does not fit on one page of the database."""
    return f"{word} {filler} " + " ".join(f"{word}{number}" for number in range(900))


def marked(url: str, filler: str = "“quoted” & <b>bold</b> ü") -> Marked:
    """A week of votes with marked texts, whose weekly report was kept and whose prompts are retired."""
    words = {kind: f"zq{kind}{number}x" for number, kind in enumerate(KINDS)}
    log = week_of_votes(60)
    card = e.ModelAdded(
        model=MODELS[0],
        display_name=f"{words['model']} One",
        provider=f"{words['model']} Labs",
        licence=words["model"],
        link=f"https://example.org/{words['model']}",
        aliases=(words["model"],),
    )
    for wording in ("first", "second"):
        log.say(e.PromptAdded(prompt_id="p1", text=long_text(words["prompt"], f"{wording} {filler}")))
        log.say(replace(card, display_name=f"{card.display_name} {wording}"))
    for name, kind in (("old", "replaced"), ("new", "answer")):
        said = long_text(words[kind], filler)
        log.say(e.ResponseAdded(response_id=name, model=MODELS[0], prompt_id="p2", text=said))
        log.say(e.Flagged(subject="response", subject_id=name, flag=e.MAY_NAME, detail=f"I am {words[kind]}"))
    log.say(e.PromptAdded(prompt_id="built", text="Build it."))
    votes = [event.body.matchup_id for event in log.events if isinstance(event.body, e.Voted)]
    log.say(e.Excluded(matchup_ids=(votes[0],), reason=f"{words['reason']} {filler}"))
    number = str(len(log.events))
    write(retire(log, "p1", "p2", "built"), url)
    content = f"<!doctype html><p>{long_text(words['file'])}</p>".encode()
    with Arena.open(url) as arena:
        pages = [CleanFile(content=page, media_type="text/html") for page in (content, b"<p>two")]
        arena.append([e.PromptEnabled(prompt_id="built")])
        arena.append(
            [
                e.ResponseAdded(
                    response_id=f"page-{place}",
                    model=MODELS[place],
                    prompt_id="built",
                    answer_kind="html",
                    text="" if place else f"a page of {words['file']}",
                    file=one.sha256,
                )
                for place, one in enumerate(pages)
            ],
            pages,
        )
        keep_finished_weeks(arena.store)
    ids: dict[str, tuple[Erasable, str]] = {
        "prompt": ("prompt", "p1"),
        "answer": ("answer", "new"),
        "replaced": ("answer", "old"),
        "file": ("answer", "page-0"),
        "model": ("model", MODELS[0]),
        "reason": ("reason", number),
    }
    return Marked(url, words, ids)


def write(log: Log, url: str) -> None:
    """The log in the database; its time begins on the first of January."""
    moved = [e.Event(event.at - START + FIRST_DAY, _dated(event.body)) for event in log.events]
    fill_log(moved, url)
    store = Store.open(url)
    record_hourly(store, moved[-1].at)
    store.close()


def _dated(body: e.AnyBody) -> e.AnyBody:
    if isinstance(body, e.MatchupServed):
        return replace(body, expires_at=body.expires_at - START + FIRST_DAY)
    return body


def data_of(url: str) -> bytes:
    """Every byte that the database keeps: of PostgreSQL the files of its tables and their indexes."""
    if url.startswith("sqlite"):
        return bytes_of(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        query = (
            "SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class "
            "WHERE relkind IN ('r', 'i', 't') AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)"
        )
        return b"".join(row[0] for row in connection.execute(query).fetchall())


def pages_of(site: SmallSite) -> dict[str, str]:
    """Every page that may show one of the texts, an administrator's too."""
    site.observatory.refresh()
    client, desk = site.client(), at_the_desk(site)
    weeks = [str(one["week"]) for one in client.get("/api/v1/validity/weeks").json()["weeks"]]
    addresses = [
        *PAGES,
        *(f"/validity/weeks/{week}" for week in weeks),
        *(f"/api/v1/validity/weeks/{week}" for week in weeks),
    ]
    answers = {address: client.get(address, follow_redirects=True) for address in addresses}
    assert [address for address, answer in answers.items() if answer.status_code != 200] == []
    result = {address: answer.text for address, answer in answers.items()}
    result |= {f"/admin{path}": desk.client.get(f"/admin{path}").text for path in DESK}
    return result


def files_since(url: str, folder: Path) -> bytes:
    """What an operator makes of the arena: witness, export, a published folder, a backup, the validity report."""
    folder.mkdir()
    commands = [
        ("arena", "witness", "--out", "w.jsonl"),
        ("arena", "export", "--out", "battles.jsonl"),
        ("arena", "validity", "--format", "html", "--out", "validity.html"),
        ("arena", "weekly", "--out", "weekly"),
    ]
    if url.startswith("sqlite"):
        commands.append(("arena", "backup", "--out", "copy.db"))
    for command in commands:
        done = within.run(folder, *command, "--db", url)
        assert done.returncode == 0, (command, done.stderr)
    done = within.run(folder, "publish", url, "site", "--texts")
    assert done.returncode == 0, done.stderr
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.fixture(scope="module")
def sqlite_marked(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Marked:
    """A marked arena, to be copied."""
    return marked(f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('marked') / 'arena.db')}")


def copied(of: Marked, folder: Path) -> Marked:
    folder.mkdir(exist_ok=True)
    path = shutil.copy(of.url.removeprefix("sqlite:///"), folder / "arena.db")
    return replace(of, url=f"sqlite:///{path}")


def erased(one: Marked, *kinds: str) -> None:
    store = Store.open(one.url)
    try:
        assert erase(store, [one.ids[kind] for kind in kinds], clock())
    finally:
        store.close()


# --- Every byte -------------------------------------------------------------------------------------------------------


def test_no_byte_of_what_is_erased_stays_in_the_data_on_a_page_or_in_a_file_made_since(
    arena_url: str, tmp_path: Path
) -> None:
    one = marked(arena_url)
    assert verify(one.url).clean
    before = verify(one.url)
    with small_site(one.url) as site:
        shown = "".join(pages_of(site).values())
        assert {kind for kind, word in one.words.items() if word in shown} == {"prompt", "answer", "model", "reason"}
        data = data_of(one.url)
        if one.url.startswith("sqlite"):  # PostgreSQL compresses long texts
            assert [kind for kind, word in one.words.items() if word.encode() not in data] == []
        for kind, word in one.words.items():
            what, name = one.ids[kind]
            done = within.run(tmp_path, "arena", "erase", what, name, "--yes", "--db", one.url)
            assert done.returncode == 0, done.stderr
            assert "Run it again later" not in done.stderr
            assert word.encode() not in data_of(one.url), kind
            if kind == KINDS[-1] or (one.url.startswith("sqlite") and word in shown):  # pages know nothing of databases
                found = [address for address, page in pages_of(site).items() if word in page]
                assert not found, (kind, found)
            keep_finished_weeks(site.arena.store)
        gone = site.client().get(f"/models/{MODELS[0]}?prompt=p1").text
        assert f"Erased on {time.strftime('%Y-%m-%d', time.gmtime())}." in gone
        assert MODELS[0] in site.client().get("/leaderboard").text
    since = files_since(one.url, tmp_path / "since") + data_of(one.url)
    assert [kind for kind, word in one.words.items() if word.encode() in since] == []
    after = verify(one.url)
    assert after.clean, after.problems
    assert after.votes == before.votes
    assert not [word for word in one.words.values() if word in sql_text(one.url)]


def sql_text(url: str) -> str:
    tables = ("events", "texts", "weekly_reports", "site_texts", "files", "reports")
    return repr([row for table in tables for row in sql(url, f"SELECT * FROM {table}")])


@settings(max_examples=size(5, soak=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_was_written_and_in_whatever_order_it_is_erased(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> None:
    folder = tmp_path_factory.mktemp("any")
    alphabet = st.characters(exclude_categories=("Cs", "Cc"))
    url = f"sqlite:///{shutil.copy(sqlite_template, folder / 'arena.db')}"
    one = marked(url, data.draw(st.text(alphabet, max_size=40)))
    head = head_of(url)
    order = data.draw(st.permutations(KINDS))
    split = data.draw(st.integers(0, len(KINDS)))
    erased(one, *order[:split], *order[:1])
    left = data_of(url)
    assert {kind for kind in KINDS if one.words[kind].encode() in left} == set(order[max(split, 1) :])
    assert verify(url, [head]).clean, "what was kept before still fits"
    erased(one, *order)
    left = data_of(url)
    assert [kind for kind in KINDS if one.words[kind].encode() in left] == []
    assert verify(url, [head]).clean


def head_of(url: str) -> Any:
    store = Store.open(url)
    new = state_head(store, clock())
    record_head(store, new, clock())
    store.close()
    return new.head


def test_erasing_changes_no_row_of_the_witness_and_no_hash_and_a_new_row_says_what_went(
    sqlite_marked: Marked, tmp_path: Path
) -> None:
    one = copied(sqlite_marked, tmp_path)
    hashes = sql(one.url, "SELECT seq, hash FROM events ORDER BY seq")
    rows = witness_of(one.url)
    erased(one, *KINDS)
    assert sql(one.url, "SELECT seq, hash FROM events ORDER BY seq")[: len(hashes)] == hashes
    assert witness_of(one.url)[: len(rows)] == rows
    erased_rows = [json.loads(line) for line in witness_of(one.url)[len(rows) :]]
    assert [(row["kind"], row["what"]) for row in erased_rows] == [("erased", "prompt"), ("erased", "model")]
    assert sql(one.url, "SELECT count(*) FROM events WHERE kind = 'erased'") == [(len(KINDS),)]
    erased(one, *KINDS)
    assert sql(one.url, "SELECT count(*) FROM events WHERE kind = 'erased'") == [(len(KINDS),)], "again is harmless"


def witness_of(url: str) -> list[bytes]:
    store = Store.open(url)
    try:
        return list(witness_lines(store, clock()))[1:]
    finally:
        store.close()


def test_a_running_site_forgets_a_reason_of_this_week_and_keeps_the_rest_of_its_report(sqlite_url: str) -> None:
    with small_site(sqlite_url) as site:
        first, second = (vote_often(site, voter, "AB")[0] for voter in ("ann", "bob"))
        site.arena.append([e.Excluded(matchup_ids=(first,), reason="zqsecret")])
        site.arena.append([e.Excluded(matchup_ids=(second,), reason="in plain sight")])
        site.observatory.refresh()
        before = site.client().get("/api/v1/validity").text
        assert "zqsecret" in before
        ((number,),) = sql(site.url, "SELECT min(seq) FROM events WHERE kind = 'excluded'")
        erase(site.arena.store, [("reason", str(number))], clock())
        site.observatory.refresh()
        after = site.client().get("/api/v1/validity").text
        assert "zqsecret" not in after
        assert "in plain sight" in after


# --- Kills and copies -------------------------------------------------------------------------------------------------


def _erase_all(url: str) -> None:
    store = Store.open(url)
    erase(store, [("prompt", "p1"), ("answer", "new"), ("answer", "page-0"), ("model", MODELS[0])], clock())


def there(one: Marked, url: str) -> set[bool]:
    """Whether each of these texts, and the file, is in the database."""
    asked = (
        "SELECT count(*) FROM texts WHERE kind = 'prompt' AND id = 'p1'",
        "SELECT count(*) FROM texts WHERE kind = 'answer' AND id = 'new'",
        "SELECT count(*) FROM texts WHERE kind = 'answer' AND id = 'page-0'",
        f"SELECT count(*) FROM files WHERE size > {len(one.words['file']) * 900}",
        f"SELECT count(*) FROM texts WHERE kind = 'model' AND id = '{MODELS[0]}'",
        "SELECT 1 - count(*) / 4 FROM events WHERE kind = 'erased'",
    )
    ((*counts,),) = sql(url, f"SELECT {', '.join(f'({query})' for query in asked)}")
    return {bool(count) for count in counts}


def test_whatever_is_being_erased_when_the_process_is_killed_is_erased_whole_or_not_at_all(
    sqlite_marked: Marked, tmp_path: Path
) -> None:
    store = Store.open(sqlite_marked.url)
    outside = Outside(store.outside.arena)
    store.close()
    states = set[bool]()
    for number in count(1):
        folder = tmp_path / str(number)
        one = copied(sqlite_marked, folder)
        outside.deletions_path.unlink(missing_ok=True)
        more = killed(_erase_all, one.url, number)
        (state,) = there(one, one.url)
        states.add(state)
        noted = bool(outside.deletions()[0])
        assert noted or state, "nothing is erased that was not noted before"
        Arena.open(one.url).close()
        assert there(one, one.url) == {not noted}, "what was begun is completed"
        if number % 10 == 0:
            assert verify(one.url).clean
            left = data_of(one.url)
            assert noted is not any(one.words[kind].encode() in left for kind in ("prompt", "answer", "model", "file"))
        shutil.rmtree(folder)
        if not more:
            break
    outside.deletions_path.unlink(missing_ok=True)
    assert states == {True, False}, "some were killed before it, and some after"


def test_an_older_copy_that_is_restored_erases_the_same_again(sqlite_marked: Marked, tmp_path: Path) -> None:
    one, old = copied(sqlite_marked, tmp_path / "now"), copied(sqlite_marked, tmp_path / "old")
    erased(one, "prompt", "file", "model", "reason")
    store = Store.open(one.url)
    outside = store.outside
    store.close()
    assert not [word for word in one.words.values() if word in outside.deletions_path.read_text()]
    with open_arena(old.url) as arena:
        assert arena.read(lambda state: state.catalog.erased_prompts) == {"p1"}
    left = data_of(old.url)
    gone = {kind for kind, word in one.words.items() if word.encode() not in left}
    assert gone == {"prompt", "file", "model", "reason"}
    assert verify(old.url).clean
    outside.deletions_path.unlink()


# --- What is served, shown and imported afterwards --------------------------------------------------------------------


@pytest.fixture
def arena(sqlite_url: str) -> Iterator[Arena]:
    """Three models and two prompts, some votes."""
    with open_arena(sqlite_url) as arena:
        bodies: list[e.AnyBody] = [
            *(e.ModelAdded(model=f"m{i}", display_name=f"Model {i}") for i in range(3)),
            *(e.PromptAdded(prompt_id=f"p{j}", text=f"Question {j}?") for j in range(2)),
        ]
        for i in range(3):
            for j in range(2):
                said = f"Answer {i} to {j}."
                bodies.append(e.ResponseAdded(response_id=f"r{i}{j}", model=f"m{i}", prompt_id=f"p{j}", text=said))
        arena.append(bodies)
        play(arena, 6)
        yield arena


def served(arena: Arena, times: int = 60) -> set[str]:
    return {text for n in range(times) for text in shown(arena, f"visitor-{n}")}


def shown(arena: Arena, voter: str) -> tuple[str, ...]:
    made = arena.serve(voter)
    return made.prompt, made.response_a, made.response_b


def test_what_is_erased_or_withdrawn_is_never_served_again_nor_switched_on(arena: Arena) -> None:
    erase(arena.store, [("prompt", "p1"), ("answer", "r00")], arena.now())
    arena.append([e.ResponseWithdrawn(response_id="r10")])
    arena.append([e.ResponseAdded(response_id="new", model="m0", prompt_id="p0", text="Another one.")])
    assert served(arena) == {"Question 0?", "Another one.", "Answer 2 to 0."}
    for body in (
        e.PromptEnabled(prompt_id="p1"),
        e.PromptAdded(prompt_id="p1", text="Question 1?"),
        e.ResponseWithdrawn(response_id="r10"),
        e.ResponseEnabled(response_id="r10"),
        e.ResponseEnabled(response_id="r00"),
    ):
        with pytest.raises(Exception, match="erased"):
            arena.append([body])


def test_who_has_it_on_the_screen_reads_afterwards_that_it_was_erased(arena: Arena) -> None:
    before = arena.serve("ann")
    erase(arena.store, [("prompt", "p0"), ("prompt", "p1")], arena.now())
    again = arena.submit(serve_again("ann")).result()
    assert again.matchup_id == before.matchup_id
    assert again.prompt.startswith("Erased on ")
    assert (again.response_a, again.response_b) == (before.response_a, before.response_b)


def serve_again(voter: str) -> Any:
    from tiltyard.arena import ServeMatchup

    return ServeMatchup(voter, open_at_most=1)


def test_an_import_of_the_same_files_brings_nothing_back(tmp_path: Path) -> None:
    bank, folder = tmp_path / "bank.jsonl", tmp_path / "answers"
    folder.mkdir()
    bank.write_text("".join(f'{{"prompt_id": "p{j}", "text": "Question {j}?"}}\n' for j in range(2)))
    for name in ("otter", "heron"):
        lines = (
            f'{{"entrant_id": "{name}", "prompt_id": "p{j}", "response_text": "{name[0]} {j}"}}\n' for j in range(2)
        )
        (folder / f"responses_{name}.jsonl").write_text("".join(lines))
    files = ("--prompts", str(bank), "--responses", str(folder))
    for command in (("init",), ("import", *files)):
        assert within.run(tmp_path, "arena", *command).returncode == 0
    url = f"sqlite:///{tmp_path / 'arena.db'}"
    ((name,),) = sql(url, "SELECT id FROM texts WHERE kind = 'answer' AND text LIKE '%o 0%'")
    for command in (("erase", "answer", str(name), "--yes"), ("erase", "prompt", "p1", "--answers", "--yes")):
        done = within.run(tmp_path, "arena", *command)
        assert done.returncode == 0, done.stderr
    done = within.run(tmp_path, "arena", "import", *files)
    assert done.returncode == 0, done.stderr
    assert "4 prompts and answers left out: they were erased" in done.stdout + done.stderr
    left = data_of(url)
    assert not [text for text in (b"o 0", b"o 1", b"h 1", b"Question 1?") if text in left]
    assert b"h 0" in left
    assert verify(url).clean


# --- What verify finds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE texts SET text = 'Another question?' WHERE kind = 'prompt' AND id = 'p0'", "was changed"),
        ("UPDATE texts SET salt = 'pepper' WHERE kind = 'answer' AND id = 'r00'", "was changed"),
        ("UPDATE texts SET id = 'p1' WHERE kind = 'prompt' AND id = 'p0'", "no event has its digest"),
        ("UPDATE texts SET text = '[1, 2, 3, 4, 5, 6, 7]' WHERE kind = 'answer' AND id = 'r00'", "was changed"),
        ("DELETE FROM texts WHERE kind = 'answer' AND id = 'r00'", "is missing, and was not erased"),
        ("DELETE FROM texts WHERE kind = 'model'", "is missing, and was not erased"),
    ],
)
def test_a_text_that_is_not_what_the_log_has_the_digest_of_is_named(arena: Arena, change: str, told: str) -> None:
    url = arena.store.database.url
    assert verify(url).clean
    sql(url, change)
    found = verify(url)
    assert {problem.table for problem in found.problems} == {"texts"}
    assert told in str(found.problems[0])


def test_a_text_that_came_back_after_it_was_erased_is_named(arena: Arena) -> None:
    url = arena.store.database.url
    columns = "digest, kind, id, salt, text, at"
    ((*values,),) = sql(url, f"SELECT {columns} FROM texts WHERE kind = 'prompt' AND id = 'p0'")
    erase(arena.store, [("prompt", "p0")], arena.now())
    sql(url, f"INSERT INTO texts ({columns}) VALUES ({', '.join(repr(value) for value in values)})")
    (problem,) = verify(url).problems
    assert str(problem) == "texts, prompt p0: was erased, and is there"


# --- The commands -----------------------------------------------------------------------------------------------------


def test_the_commands_ask_first_and_say_what_stays(sqlite_marked: Marked, tmp_path: Path) -> None:
    one = copied(sqlite_marked, tmp_path)
    db = ("--db", one.url)

    def run(*arguments: str) -> Any:
        return within.run(tmp_path, "arena", *arguments, *db)

    for command in (("erase", "prompt", "p1"), ("withdraw", "new"), ("retire", "p0")):
        done = run(*command)
        assert done.returncode == 1, done.stderr
        assert "pass --yes" in done.stderr
    assert "p0: 8 answers become public with their authors" in run("retire", "p0", "--yes").stderr
    assert run("withdraw", "new", "--yes").returncode == 0
    assert "p2: 7 answers become public with their authors, 1 stay hidden" in run("retire", "p2", "--yes").stderr
    for what in ("prompt", "answer", "model", "reason"):
        done = run("erase", what, "nowhere", "--yes")
        assert done.returncode == 1, done.stderr
        assert "nowhere" in done.stderr
    assert "erase which model?" in run("erase", "model", "--yes").stderr
    assert "--answers belongs to" in run("erase", "model", MODELS[0], "--answers", "--yes").stderr
    listed = run("erase", "reason").stdout
    assert listed.startswith(one.ids["reason"][1])
    assert one.words["reason"] in listed


def test_an_unknown_id_erases_nothing_of_what_else_was_named(sqlite_marked: Marked, tmp_path: Path) -> None:
    one = copied(sqlite_marked, tmp_path)
    store = Store.open(one.url)
    with pytest.raises(OptionError, match="there is no answer 'nowhere'"):
        erase(store, [("prompt", "p1"), ("answer", "nowhere")], clock())
    store.close()
    assert one.words["prompt"].encode() in data_of(one.url)
