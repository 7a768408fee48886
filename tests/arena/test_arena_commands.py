"""`tiltyard arena …` as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
import yaml

import tiltyard as ty
from tests import forked
from tests.cli.conftest import Run, tiltyard  # noqa: F401 - the fixture is used by name
from tiltyard.arena import read_policy
from tiltyard.errors import OptionError

EXAMPLE = Path(__file__).parents[2] / "examples" / "tournament"
FILES = ("--prompts", str(EXAMPLE / "bank.jsonl"), "--responses", str(EXAMPLE / "responses"))
DB = ("--db", "sqlite:///arena.db")
SMALL = ("simulate", "--models", "10", "--prompts", "6", "--votes", "400", "--in-flight", "20", "--looks", "2")


def ok(run: Run, *arguments: str) -> tuple[str, str]:
    done = run("arena", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def fails(run: Run, *arguments: str) -> str:
    done = run("arena", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("tiltyard: ")
    return last


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena as `init` makes it."""
    folder = tmp_path_factory.mktemp("empty")
    done = forked.Forked(folder, "streams", forked.command, "arena", "init", *DB).wait()
    assert done.returncode == 0, done.stderr
    return folder / "arena.db"


@pytest.fixture
def made(empty: Path, tmp_path: Path) -> None:
    """The same arena, in the test's own folder."""
    shutil.copy(empty, tmp_path)


def test_an_arena_is_made_filled_filled_again_and_verified(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    ok(tiltyard, "init", *DB)
    _, said = ok(tiltyard, "import", *DB, *FILES)
    assert "3 models, 8 prompts and 24 answers are new or changed" in said
    assert "8 prompts can be served" in said
    _, again = ok(tiltyard, "import", *DB, *FILES)
    assert "0 models, 0 prompts and 0 answers are new or changed; 35 unchanged" in again
    cards = [{"model": "terse", "display_name": "Terse 😀", "provider": "Nobody & Co", "link": "https://example.org"}]
    (tmp_path / "models.json").write_text(json.dumps(cards), encoding="utf-8")
    _, described = ok(tiltyard, "import", *DB, "--models", "models.json")
    assert "1 models, 0 prompts" in described
    (tmp_path / "half.json").write_text('[{"model": "terse", "display_name": "Half a \\ud83d"}]', encoding="utf-8")
    refused = tiltyard("arena", "import", *DB, "--models", "half.json")
    assert (refused.returncode, "half a surrogate pair" in refused.stderr) == (1, True)
    assert "are new or changed" not in refused.stderr, "nothing was stored"
    shown, _ = ok(tiltyard, "verify", *DB)
    assert "38 events, 0 counted votes" in shown  # settings, phase, 35 things, and one description
    assert "the log and all that follows from it agree" in shown


def test_the_policy_and_the_phase_are_settings_and_moving_them_is_an_event(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    defaults, _ = ok(tiltyard, "init", "--print-policy")
    assert "contender_band: 8" in defaults
    (tmp_path / "policy.yaml").write_text(
        "contender_band: 5\nlanes: {coverage: 1.0, contender: 0, uncertainty: 0, exploration: 0}\n"
    )
    ok(tiltyard, "init", *DB, "--policy", "policy.yaml", "--phase", "1")
    shown, _ = ok(tiltyard, "settings", *DB, "--phase", "2")
    assert shown == "phase: 2\n"
    assert "contender_band: 5" in ok(tiltyard, "settings", *DB)[0]
    (tmp_path / "wrong.yaml").write_text("contender_bands: 5\n")
    assert "contender_bands" in fails(tiltyard, "settings", *DB, "--policy", "wrong.yaml")
    (tmp_path / "shares.yaml").write_text("lanes: {coverage: 0.9}\n")
    assert "add to 1" in fails(tiltyard, "settings", *DB, "--policy", "shares.yaml")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("badges: {established_deviation: .inf}", "badges.established_deviation is inf"),
        ("lanes: {coverage: .nan}", "lanes.coverage is nan"),
        ("exposure_tolerance: 0", "exposure_tolerance is 0.0"),
        ("matchup_expires_seconds: 99999999999999999", "matchup_expires_seconds is 99999999999999999"),
        ("traffic_cap_from: 0", "traffic_cap_from is 0"),
        ("challenger_reach: -3", "challenger_reach is -3"),
        ("undo_seconds: -5", "undo_seconds is -5"),
        ("limits: {session_matchups_per_minute: 0}", "limits.session_matchups_per_minute is 0"),
    ],
)
def test_a_policy_that_could_not_be_lived_by_is_refused(setting: str, words: str) -> None:
    with pytest.raises(OptionError, match=f"policy: {words};"):
        read_policy(yaml.safe_load(setting))


@pytest.mark.usefixtures("made")
def test_a_refused_policy_leaves_the_log_as_it_was(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    (tmp_path / "policy.yaml").write_text("badges: {established_deviation: .inf}\n")
    assert "established_deviation is inf" in fails(tiltyard, "settings", *DB, "--policy", "policy.yaml")
    ok(tiltyard, "verify", *DB)


@pytest.mark.usefixtures("made")
def test_a_prompt_whose_subject_or_tags_changed_is_imported_again_and_stays_switched_off(
    tmp_path: Path,
    tiltyard: Run,  # noqa: F811
) -> None:
    from tiltyard.arena import Arena
    from tiltyard.arena.rules.events import PromptDisabled

    bank = tmp_path / "bank.jsonl"
    bank.write_text('{"prompt_id": "p", "text": "2 + 2?"}\n{"prompt_id": "q", "text": "3 + 3?"}\n')
    ok(tiltyard, "import", *DB, "--prompts", "bank.jsonl")
    with Arena.open(f"sqlite:///{tmp_path / 'arena.db'}") as arena:
        arena.append([PromptDisabled(prompt_id="p")])
    bank.write_text(
        '{"prompt_id": "p", "text": "2 + 2?", "subject": "maths"}\n'
        '{"prompt_id": "q", "text": "3 + 3?", "tags": ["hard"]}\n'
    )
    _, said = ok(tiltyard, "import", *DB, "--prompts", "bank.jsonl")
    assert "0 models, 2 prompts and 0 answers are new or changed" in said
    with Arena.open(f"sqlite:///{tmp_path / 'arena.db'}") as arena:
        kept = arena.read(lambda state: (list(state.catalog.prompts), list(state.catalog.prompt_enabled)))
    assert [(prompt.subject, prompt.tags) for prompt in kept[0]] == [("maths", ()), (None, ("hard",))]
    assert kept[1] == [False, True]
    _, again = ok(tiltyard, "import", *DB, "--prompts", "bank.jsonl")
    assert "0 prompts" in again


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:hunter2@127.0.0.1:1/arena",
        "postgresql://127.0.0.1:1/arena?user=bob&password=hunter2",
        "postgresql:/bob:hunter2@host/arena",
        "postgresql://bob:hunter2@host:port/arena",
        "mysql://bob:hunter2@host/arena",
    ],
)
def test_a_password_in_the_address_of_a_database_is_never_shown(tiltyard: Run, url: str) -> None:  # noqa: F811
    done = tiltyard("arena", "init", "--db", url)
    assert done.returncode == 1
    assert done.stderr.startswith("tiltyard: ")
    assert "hunter2" not in done.stdout + done.stderr


def test_a_simulation_says_how_truly_it_ranked(tiltyard: Run) -> None:  # noqa: F811
    options = (*SMALL, "--votes", "200", "--seed", "3", "--format", "json")
    shown, _ = ok(tiltyard, *options)
    result = json.loads(shown)
    assert {
        *("models", "votes", "kendall_tau", "kendall_tau_bradley_terry", "in_tolerance", "in_flight_duplicates"),
        *("lane_shares", "side_a_share", "established"),
    } <= set(result)
    assert (result["models"], result["votes"]) == (10, 200)
    assert result["kendall_tau"] > 0.7
    assert result["diversity_broken"] == 0


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena that a simulation was kept in."""
    folder = tmp_path_factory.mktemp("simulated")
    done = forked.Forked(folder, "streams", forked.command, "arena", *SMALL, *DB).wait()
    assert done.returncode == 0, done.stderr
    return folder / "arena.db"


@pytest.fixture
def kept(simulated: Path, tmp_path: Path) -> None:
    """The same arena, in the test's own folder."""
    shutil.copy(simulated, tmp_path)


@pytest.mark.usefixtures("kept")
def test_a_kept_simulation_verifies_and_tiltyard_rate_gives_its_offline_board(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    shown, _ = ok(tiltyard, "verify", *DB)
    assert "400 counted votes" in shown
    _, said = ok(tiltyard, "export", *DB, "--out", "battles.jsonl")
    assert "tiltyard rate battles.jsonl --cluster voter --anytime --only-connected" in said
    text = (tmp_path / "battles.jsonl").read_text(encoding="utf-8")
    assert "session" not in text  # the keys of voters do not leave the arena
    report, _ = ok(tiltyard, "validity", *DB, "--since", "1d", "--format", "json")
    published = json.loads(report)["offline"]
    offline = {row["model"]: row for row in published["rows"]}
    board = ty.rate(str(tmp_path / "battles.jsonl"), cluster="voter", anytime=True)
    assert len(board) == 10
    for entry in board:
        assert entry.ci_low is not None
        rating, low = (published["centre"] + published["slope"] * (at - 1000.0) for at in (entry.rating, entry.ci_low))
        assert rating == pytest.approx(offline[entry.model]["rating"], abs=1e-6)
        assert offline[entry.model]["widened"] or low == pytest.approx(offline[entry.model]["low"], abs=1e-6)
        assert (entry.rank_low, entry.rank_high) == (
            offline[entry.model]["rank_low"],
            offline[entry.model]["rank_high"],
        )


@pytest.mark.usefixtures("kept")
def test_a_changed_event_and_a_changed_table_are_both_found(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    with sqlite3.connect(tmp_path / "arena.db") as connection:
        connection.execute("UPDATE matchups SET choice = 'TIE' WHERE vote_seq IS NOT NULL")
    assert "not as the log says" in fails(tiltyard, "verify", *DB)
    ok(tiltyard, "verify", *DB, "--rebuild")
    with sqlite3.connect(tmp_path / "arena.db") as connection:
        connection.execute("UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE seq = 700 OR seq = 701")
        changed = connection.execute("SELECT changes()").fetchone()[0]
    assert changed
    done = tiltyard("arena", "verify", *DB)
    assert done.returncode == 1


@pytest.mark.usefixtures("made")
def test_prompts_are_listed_retired_and_served_again_with_a_warning(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    ok(tiltyard, "import", *DB, *FILES)
    listed, _ = ok(tiltyard, "prompts", *DB)
    assert listed.count(" on ") == 8
    first = listed.splitlines()[1].split()[0]
    assert "pass --yes" in fails(tiltyard, "retire", *DB, first)
    _, said = ok(tiltyard, "retire", *DB, first, "--yes")
    assert f"{first}: 3 answers become public with their authors" in said
    listed, _ = ok(tiltyard, "prompts", *DB)
    assert "hidden for a week: pairs may wait" in listed
    with sqlite3.connect(tmp_path / "arena.db") as connection:  # more than a week ago
        connection.execute("UPDATE events SET at = at - 8 * 86400000000 WHERE kind = 'prompt_disabled'")
    ok(tiltyard, "settings", *DB, "--phase", "3")
    rows = json.loads(ok(tiltyard, "prompts", *DB, "--format", "json")[0])["prompts"]
    assert [row["prompt_id"] for row in rows if row["answers_public"]] == [first]
    _, said = ok(tiltyard, "prompts", "serve", *DB, first)
    assert f"{first} has lost its blindness" in said
    assert "there is no prompt 'nowhere'" in fails(tiltyard, "retire", *DB, "nowhere", "--yes")
    assert "rotate takes no ids" in fails(tiltyard, "prompts", "rotate", first, *DB)
    assert "belong to `prompts rotate`" in fails(tiltyard, "prompts", *DB, "--keep", "8")
    listed, _ = ok(tiltyard, "prompts", "reserve", first, *DB)
    assert "for later" in listed
    _, said = ok(tiltyard, "prompts", "rotate", *DB, "--fresh-share", "0.1", "--dry-run")
    assert f"1 prompts would be served from now on: {first}" in said
    listed, said = ok(tiltyard, "prompts", "rotate", *DB, "--fresh-share", "0.1")
    assert listed.count(" on ") == 8
    assert "no fresh prompts are kept for later" in ok(tiltyard, "prompts", "rotate", *DB)[1]


@pytest.mark.usefixtures("kept")
def test_an_arena_that_is_not_blind_is_said_to_be_so(tiltyard: Run) -> None:  # noqa: F811
    shown, said = ok(tiltyard, "settings", *DB, "--texts-public", "always")
    assert "texts_public: always" in shown
    assert "not blind" in said
    for form in ("md", "html"):
        assert "This arena is not blind" in ok(tiltyard, "validity", *DB, "--format", form)[0]
    shown, said = ok(tiltyard, "settings", *DB, "--texts-public", "after_retirement")
    assert "were public until now" in said
    assert "not blind" not in ok(tiltyard, "validity", *DB)[0]


@pytest.mark.usefixtures("kept")
def test_the_report_is_a_page_too(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    ok(tiltyard, "validity", *DB, "--format", "html", "--out", "week.html")
    page = (tmp_path / "week.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "Pair completeness" in page
    markdown, _ = ok(tiltyard, "validity", *DB, "--since", "2w")
    assert markdown.startswith("# Validity report")


@pytest.mark.usefixtures("made")
def test_an_answer_that_names_its_author_is_held_on_import(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    folder = tmp_path / "responses"
    folder.mkdir()
    for name, text in (("plain", "Paris."), ("claude-9", "I am Claude, made by Anthropic. Paris.")):
        row = {"entrant_id": name, "prompt_id": "capital-france", "response_text": text}
        (folder / f"responses_{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    _, said = ok(tiltyard, "import", *DB, "--prompts", str(EXAMPLE / "bank.jsonl"), "--responses", "responses")
    assert "held 1 of 2 answers (50.0 %): they contain their author's name" in said
    shown, _ = ok(tiltyard, "screen", *DB)
    assert re.search(r"answer \S+ of claude-9 \(held\): “I am Claude, made by Anthropic. Paris.”", shown)
    assert "held 1 of 2 answers (50.0 %): they contain their author's name; read them, and release with" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("verify", *DB), "there is no arena at"),
        (("import", "--db", "mysql://x/y", *FILES), "cannot hold an arena"),
        (("verify", "--db", "nonsense"), "not the URL of a database"),
        (("validity", *DB, "--since", "soon"), "--since"),
        (("validity", *DB, "--since", "99999999999w"), "more than ten years"),
    ],
)
def test_bad_input_is_one_clear_line(tiltyard: Run, arguments: tuple[str, ...], words: str) -> None:  # noqa: F811
    assert words in fails(tiltyard, *arguments)


@pytest.mark.usefixtures("made")
def test_an_import_of_nothing_says_what_to_give(tiltyard: Run) -> None:  # noqa: F811
    assert "--prompts" in fails(tiltyard, "import", *DB)
    assert "has no responses_<model>.jsonl" in fails(tiltyard, "import", *DB, "--responses", ".")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("url", ["http://[::1", "arena.example.org"])
def test_a_public_address_that_is_none_is_refused_before_anything_listens(tiltyard: Run, url: str) -> None:  # noqa: F811
    assert f"the public URL {url!r} is not a web address" in fails(tiltyard, "serve", *DB, "--public-url", url)


@pytest.mark.usefixtures("made")
def test_invitations_are_made_listed_and_revoked_and_what_is_over_is_deleted(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    assert "no invitations" in ok(tiltyard, "invite", *DB)[0]
    _, said = ok(tiltyard, "invite", *DB, "--n", "3", "--out", "links.txt", "--label", "course")
    assert "open to all" in said
    assert "on this machine only" in said
    links = (tmp_path / "links.txt").read_text().splitlines()
    assert len(set(links)) == 3
    assert all(link.startswith("http://127.0.0.1:8000/invited/") for link in links)
    shown, _ = ok(tiltyard, "settings", *DB, "--invitation-only")
    assert shown == "phase: 4\nentry:\n  invitation_only: true\n"  # what changed, not the whole policy
    more = ("--n", "1", "--uses", "0", "--days", "2", "--out", "more.txt")
    _, quiet = ok(tiltyard, "invite", *DB, *more, "--public-url", "http://arena.example:8000")
    assert "open to all" not in quiet
    assert "on this machine only" not in quiet
    listed, _ = ok(tiltyard, "invite", *DB)
    assert listed.count("open") == 4
    assert "used 0 of any number" in listed
    ok(tiltyard, "invite", *DB, "--revoke", "course")
    assert ok(tiltyard, "invite", *DB)[0].count("revoked") == 3
    assert "no invitation in use" in fails(tiltyard, "invite", *DB, "--revoke", "course")
    assert ok(tiltyard, "tidy", *DB)[0].startswith("deleted: 0 links")
    assert "invitation_only: false" in ok(tiltyard, "settings", *DB, "--open-to-all")[0]


@pytest.mark.usefixtures("made")
def test_the_texts_of_an_operator_are_set_and_shown(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    (tmp_path / "privacy.txt").write_text("We run this.\n\nWrite to us.")
    shown, _ = ok(tiltyard, "settings", *DB, "--consent", "You agree.", "--privacy", "privacy.txt")
    assert shown.rstrip().endswith("consent: You agree.\nprivacy: We run this.\n\nWrite to us.")
    assert "cannot read nowhere.txt" in fails(tiltyard, "settings", *DB, "--privacy", "nowhere.txt")
