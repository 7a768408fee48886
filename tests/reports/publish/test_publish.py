"""A published folder: what is in it, what is not, that it is replaced whole, and that a change is found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from published_folders import NASTY, changed, check, everything, plain, world, write_rows
from tests.records import replace
from typer.testing import CliRunner

import tiltyard as ty
from tiltyard import publish
from tiltyard.cli.main import make_app
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.reports.publish import BoardRules
from tiltyard.reports.publish.columns import column_file
from tiltyard.reports.publish.folder import read_manifest
from tiltyard.reports.publish.pages import PageContext, board_tallies, model_page
from tiltyard.reports.publish.publication import BoardPart, make_parts, publishable, slug
from tiltyard.verbs.publish import PublishedFolder


def copied(published: PublishedFolder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published.folder, tmp_path / "copy"))


def test_a_folder_has_pages_battles_and_hashes_and_agrees_with_itself(published: PublishedFolder) -> None:
    names = set(everything(published.folder))
    assert {"index.html", "methods.html", "data.html", "feed.atom", "battles.schema.json", "published.json"} <= names
    assert sum(name.startswith("models/") for name in names) == 4
    assert sum(name.startswith("compare/") for name in names) == 6
    found = check(published.folder)
    assert (found.problems, found.not_compared) == ([], [])
    assert found.values["fingerprint"] == published.fingerprint
    rules = "ties: davidson; both answers bad: separate; judgments that changed with the order: tie; no model"
    assert found.conclusion.startswith(
        f"agrees with itself: ratings, ranges and pages are what these 180 battles give under these rules ({rules}"
    )
    assert found.conclusion.endswith("Whoever published it could have changed the battles.")


def test_the_same_battles_give_the_same_bytes(small: PublishedFolder, plain_file: Path, tmp_path: Path) -> None:
    """The pages of a folder with parts are made twice above: its check compares them with those that battles give."""
    publish(plain_file, tmp_path / "again")
    assert everything(tmp_path / "again") == everything(small.folder)


@pytest.mark.parametrize("repeated", [0, 1])
def test_rows_that_only_an_unpublished_column_tells_apart_agree_with_their_folder(
    repeated: int, tmp_path: Path
) -> None:
    lines = ["v1,v2,A,q1,good", "v1,v2,A,q1,fine", "v2,v1,B,q2,x", *["v2,v1,A,q3,y"] * (1 + repeated)]
    (tmp_path / "tiny.csv").write_text("\n".join(["model_a,model_b,winner,question_id,comment", *lines]) + "\n")
    published = publish(tmp_path / "tiny.csv", tmp_path / "P")
    assert check(published.folder).problems == []
    repeats = "Rows of the source that repeat another one in every column, each of which counts: 1."
    assert (repeats in published.publication.notes) == bool(repeated)


def test_the_page_of_a_pair_takes_the_advantage_of_being_shown_first_out_of_the_difference(tmp_path: Path) -> None:
    row = {"source": "human", "one_order": True}
    rows = []
    for n in range(120):
        row |= {"question_id": f"q{n}", "voter": f"u{n % 40}", "winner": "model_a" if n % 4 else "model_b"}
        rows += [{**row, "model_a": a, "model_b": b} for a, b in (("new", "old"), ("new", "d"), ("d", "new"))]
    publish(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "site", title="Sides")
    (page,) = (tmp_path / "site" / "compare").glob("new-*--old-*.html")
    text = page.read_text(encoding="utf-8")
    assert "Cannot tell new from old: 0 points" in text  # new won 90 of 120, all shown first
    assert "the first side wins 75" in text


def test_its_board_is_that_of_rate_and_its_rows_fit_their_schema(published: PublishedFolder, battle_file: Path) -> None:
    board = json.loads((published.folder / "board.json").read_bytes())
    expected = ty.rate(battle_file)
    assert [row["model"] for row in board["ratings"]] == expected.models
    for row, entry in zip(board["ratings"], expected, strict=True):
        found = (row["rating"], row["ci_low"], row["ci_high"])
        assert found == pytest.approx((entry.rating, entry.ci_low, entry.ci_high), rel=1e-12)
    schema = json.loads((published.folder / "battles.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    fits = jsonschema.Draft202012Validator(schema)
    for line in (published.folder / "battles.jsonl").read_text("utf-8").splitlines()[:50]:
        fits.validate(json.loads(line))
    with pytest.raises(jsonschema.ValidationError):
        fits.validate({"model_a": "x", "model_b": "y", "winner": "draw", "source": "human"})


def test_nobody_is_named_and_no_text_is_told_unless_asked(tmp_path: Path) -> None:
    rows = [
        {**row, "question_id": f"What is the secret number {i % 7}?", "notes": "private"}
        for i, row in enumerate(world(80, models=3, category="code"))
    ]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    plain = publish(source, tmp_path / "plain")
    told = publish(source, tmp_path / "told", texts=True)
    for folder, texts in ((plain.folder, False), (told.folder, True)):
        content = b"".join(data for name, data in everything(folder).items() if not name.endswith(".parquet"))
        assert b"example.org" not in content
        assert b"private" not in content
        assert (b"secret number" in content) == texts
    for one, other in zip(plain.publication.boards[0].board, told.publication.boards[0].board, strict=True):
        assert (one.rating, one.ci_low, one.ci_high) == (other.rating, other.ci_low, other.ci_high)
    assert any("Voters are numbers" in line for line in plain.publication.about)
    assert b"Voters are numbers" in everything(plain.folder)["methods.html"]


def test_any_name_of_a_model_is_only_a_text(published: PublishedFolder) -> None:
    for name, data in everything(published.folder).items():
        assert re.fullmatch(r"[a-z0-9.-]+(/[a-z0-9.-]+)?", name), name
        if name.endswith(".html"):
            assert b"<img" not in data
            policy = re.search(rb'http-equiv="Content-Security-Policy" content="([^"]+)"', data)
            assert policy is not None
            assert policy[1].startswith(b"default-src &#39;none&#39;")
            assert b"unsafe" not in policy[1]
            assert not re.search(rb'(?:src|action)="', data)
            assert all(
                link.startswith((b"../", b"#", b"data:,", b"https://example.org/board/")) or b":" not in link
                for link in re.findall(rb'href="([^"]*)"', data)
            )
    assert slug(NASTY) != slug(NASTY.upper())


def test_categories_and_languages_have_boards_of_their_own_without_a_script(
    published: PublishedFolder, battle_file: Path
) -> None:
    parts = {(part.column, part.label): part for part in published.publication.parts}
    assert set(parts) == {
        ("category", "code"), ("category", "chat"), ("category", "a <b> & 'c'"), ("language", "en"), ("language", "de")
    }  # fmt: skip
    overview = (published.folder / "parts.html").read_text("utf-8")
    assert "By category and language" in (published.folder / "index.html").read_text("utf-8")
    for part in parts.values():
        assert f'href="{part.file}"' in overview
        page = (published.folder / part.file).read_text("utf-8")
        assert "<script" not in page
        column, label = part.column, part.label.replace("'", "''")
        expected = ty.rate(battle_file, where=f"{column} = '{label}'")
        assert part.boards[0].board.ratings == pytest.approx(expected.ratings, abs=1e-9)
        for entry in expected:
            assert f'<data value="{part.boards[0].board[entry.model].rating!r}">' in page


def test_a_part_that_cannot_be_rated_is_named_with_the_reason() -> None:
    one, two, few = (world(40, category=name) for name in ("one", "two", "few"))
    for row in two[:20]:
        row["model_a"], row["model_b"] = "x", "y"
    parts = make_parts(ty.read_battles([*one, *two, *few[:5]]), BoardRules())
    assert [(part.label, len(part.boards)) for part in parts if part.column == "category"] == [
        ("one", 1), ("two", 0), ("few", 0)
    ]  # fmt: skip
    assert "never met" in parts[1].why_none
    assert parts[2].why_none == "fewer than 30 battles"


def test_a_part_without_the_model_under_test_has_a_board_and_one_without_the_anchor_says_so() -> None:
    everybody, without = world(60, category="all"), world(60, category="some")
    gone = everybody[0]["model_a"]
    rest = [row for row in without if gone not in (row["model_a"], row["model_b"])]
    table = ty.read_battles([*everybody, *rest])

    def parts(rules: BoardRules) -> list[BoardPart]:
        return [part for part in make_parts(table, rules) if part.column == "category"]

    assert [len(part.boards) for part in parts(BoardRules(evaluated=gone))] == [1, 1]
    anchored = parts(BoardRules(anchor=(gone, 1000.0)))
    assert [len(part.boards) for part in anchored] == [1, 0]
    assert gone in anchored[1].why_none


def test_a_models_page_has_its_prompts_and_their_texts_only_where_they_may_be_public(
    published: PublishedFolder, battle_file: Path
) -> None:
    site, model = published.publication, "model 2"
    (tally,) = [board_tallies(site, one) for one in site.boards]
    assert tally[1] is not None
    found = {name: counts for name, counts, _ in tally[1].of(model)}
    rows = [row for row in world() if model in (row["model_a"], row["model_b"])]
    for prompt in {row["question_id"] for row in rows}:
        mine = [row for row in rows if row["question_id"] == prompt]
        won = sum(row[row["winner"]] == model for row in mine if row["winner"] in row)
        ties, bad = (sum(row["winner"] == word for row in mine) for word in ("tie", "tie (bothbad)"))
        assert found[prompt] == [won, len(mine) - won - ties - bad, ties, bad]
    with_texts = replace(site, texts={"q3": "What is <it>?"})
    plain, told = (model_page(PageContext(one), model, [tally])[1].decode() for one in (site, with_texts))
    assert ">q3<" in plain
    assert "What is" not in plain
    assert "What is &lt;it&gt;?" in told
    assert ">q3<" not in told


@pytest.mark.parametrize("name", ["battles.jsonl", "battles.parquet", "battles.cols"])
def test_a_changed_copy_of_the_battles_is_found_and_named(small: PublishedFolder, tmp_path: Path, name: str) -> None:
    folder = copied(small, tmp_path)
    rows = [json.loads(line) for line in (folder / "battles.jsonl").read_text("utf-8").splitlines()]
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "model_a", "tie (bothbad)": "tie"}
    rows[16]["winner"] = other[rows[16]["winner"]]
    table = ty.read_battles(rows)
    ty.write_battles(tmp_path / "new.jsonl", table)
    ty.write_battles(tmp_path / "new.parquet", table)
    new = column_file(table) if name.endswith("cols") else (tmp_path / f"new.{name.split('.')[1]}").read_bytes()
    changed(folder, name, lambda _: new, rehash=False)
    for hashed in (False, True):
        if hashed:
            recomputed(folder, name)
        found = check(folder).problems
        copies = {"battles.parquet", "battles.cols"} if name == "battles.jsonl" else {name}
        assert copies <= {line.split(" ")[0] for line in found}
        if name != "battles.jsonl":  # pages have the hash of what was published
            assert {line.split(" ")[0] for line in found} <= {name, "data.html", "index.html"}


def recomputed(folder: Path, name: str) -> None:
    """Write the hash of a file as it is now into the manifest."""
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(b"")
    changed(folder, name, lambda _: data)


def test_battles_changed_in_all_copies_are_found_by_rating_them_again(small: PublishedFolder, tmp_path: Path) -> None:
    folder, rows = copied(small, tmp_path), plain()
    rows[3]["winner"] = "model_a" if rows[3]["winner"] == "model_b" else "model_b"
    other = publish(write_rows(tmp_path / "other.jsonl", rows), tmp_path / "other").folder
    for name in ("battles.jsonl", "battles.parquet", "battles.cols"):
        changed(folder, name, lambda _, name=name: (other / name).read_bytes())  # type: ignore[misc]
    found = check(folder).problems
    assert re.match(
        r'board.json: .*: it says {"rating": \d+.*}, and these battles give {"rating": \d+', found[0], re.DOTALL
    )
    assert {"index.html", "methods.html"} <= {line.split(" ")[0] for line in found}


def test_whoever_publishes_changed_battles_anew_is_found_by_the_fingerprint_alone(
    small: PublishedFolder, tmp_path: Path
) -> None:
    rows = plain()
    rows[3]["winner"] = "model_a" if rows[3]["winner"] == "model_b" else "model_b"
    forged = publish(write_rows(tmp_path / "votes.jsonl", rows), tmp_path / "forged")
    found = check(forged.folder)
    assert found.problems == []
    assert found.values["fingerprint"] != small.fingerprint


@pytest.mark.parametrize("name", ["index.html", "data.html", "feed.atom", "battles.schema.json"])
def test_a_changed_page_is_found_though_its_hash_was_computed_anew(
    small: PublishedFolder, tmp_path: Path, name: str
) -> None:
    folder = copied(small, tmp_path)
    changed(folder, name, lambda data: data.replace(b"<", b"<!-- -->", 1) if name != "battles.schema.json" else b"{}")
    problem, *_ = check(folder).problems
    assert re.fullmatch(rf"{re.escape(name)} is not the file that these battles give: line \d+ differs", problem)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("methods.html", "methods.html is missing"),
        ("battles.cols", "battles.cols is missing"),
    ],
)
def test_what_a_folder_of_another_version_lists_is_there(
    small: PublishedFolder, tmp_path: Path, name: str, told: str
) -> None:
    folder = copied(small, tmp_path)
    said = json.loads((folder / "published.json").read_bytes())
    (folder / "published.json").write_text(json.dumps({**said, "writer": "another"}), encoding="utf-8")
    assert check(folder).problems == []
    (folder / name).unlink()
    assert told in check(folder).problems


def test_a_version_alone_makes_no_page_another_versions(small: PublishedFolder, tmp_path: Path) -> None:
    folder = copied(small, tmp_path)
    said = json.loads((folder / "published.json").read_bytes())
    (folder / "published.json").write_text(json.dumps({**said, "tiltyard_version": "0.9.0"}), encoding="utf-8")
    assert 'it says {"tiltyard_version": "0.9.0"}' in check(folder).problems[0]
    (folder / "published.json").write_text(json.dumps({**said, "tiltyard_version": "1.0. All agrees"}), "utf-8")
    with pytest.raises(TiltyardError, match="is no version"):
        check(folder)


def test_pages_of_another_version_are_not_compared_and_ratings_are(small: PublishedFolder, tmp_path: Path) -> None:
    folder = copied(small, tmp_path)
    said = json.loads((folder / "published.json").read_bytes())
    (folder / "published.json").write_text(json.dumps({**said, "writer": "another"}), encoding="utf-8")
    assert check(folder).not_compared == ["published.json"], "the rest is the same, whoever wrote it"
    changed(folder, "index.html", lambda data: data.replace(b"</h1>", b" Audited</h1>"))
    found = check(folder)
    assert (found.problems, found.not_compared) == ([], ["index.html", "published.json"])
    assert "agrees in part: ratings and ranges are what" in found.conclusion
    assert "(index.html, published.json). Check them with that version: tiltyard " in found.conclusion
    assert ", writer another; this is writer " in found.conclusion
    for options, code in ((), 3), (("--ratings-only",), 0):
        done = CliRunner().invoke(make_app("verify"), ["verify", str(folder), *options])
        assert done.exit_code == code
        assert "agrees in part" in done.stdout
    board = json.loads((folder / "board.json").read_bytes())
    changed(folder, "board.json", lambda _: json.dumps({**board, "n_battles": 999_999}).encode())
    named = "board.json but for ratings, ranges, places and counts of models"
    assert named in check(folder).not_compared
    board["ratings"][0]["rating"] = 9999.0
    changed(folder, "board.json", lambda _: json.dumps(board).encode())
    (problem,) = check(folder).problems
    assert re.match(r'board.json: .*: it says {"rating": 9999.0}, and these battles give ', problem, re.DOTALL)


def test_a_missing_file_and_a_path_that_leaves_the_folder_are_named(small: PublishedFolder, tmp_path: Path) -> None:
    folder = copied(small, tmp_path)
    (folder / "methods.html").unlink()
    assert check(folder).problems == ["methods.html is missing"]
    said = json.loads((folder / "published.json").read_bytes())
    for name in ("../secret", "/etc/passwd", "a//b", "a\\b", ""):
        said["files"] = {name: {"sha256": "0" * 64, "bytes": 1}}
        with pytest.raises(TiltyardError, match="no file inside the folder"):
            read_manifest(json.dumps(said).encode(), "x")


@pytest.mark.parametrize("other", [{"format": -1}, {"format": 0}, {"format": 99}, {"kind": "published-bread"}])
def test_a_format_that_is_not_known_is_refused(
    small: PublishedFolder, tmp_path: Path, other: dict[str, object]
) -> None:
    folder = copied(small, tmp_path)
    said = json.loads((folder / "published.json").read_bytes())
    (folder / "published.json").write_text(json.dumps({**said, **other}), encoding="utf-8")
    with pytest.raises(TiltyardError, match=str(*other.values())):
        check(folder)


def test_publishing_again_replaces_what_was_ours_and_nothing_else(small: PublishedFolder, tmp_path: Path) -> None:
    out = copied(small, tmp_path)
    (out / "CNAME").write_text("board.example.org", encoding="utf-8")
    (out / "models" / "mine.html").write_text("mine", encoding="utf-8")
    done = publish(write_rows(tmp_path / "less.jsonl", plain(60, models=2)), out)
    assert check(out, "CNAME", "models/mine.html").problems == []
    names = set(everything(out))
    assert names - set(read_manifest((out / "published.json").read_bytes(), "x").files) == {
        "CNAME",
        "models/mine.html",
        "published.json",
    }
    assert len(names) == done.files + 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_is_not_ours_is_refused_and_stays_as_it_was(
    plain_file: Path, small: PublishedFolder, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text("mine", encoding="utf-8")
    with pytest.raises(OptionError, match="is no published board"):
        publish(plain_file, foreign)
    assert everything(foreign) == {"index.html": b"mine"}
    out = copied(small, tmp_path)
    (out / "index.html").write_text("my own words", encoding="utf-8")
    before = everything(out)
    with pytest.raises(OptionError, match=r"index.html is not as `publish` wrote it. Nothing was changed"):
        publish(write_rows(tmp_path / "small.jsonl", plain(60)), out)
    assert everything(out) == before
    with pytest.raises(OptionError, match="is a file"):
        publish(plain_file, plain_file)


def test_a_link_out_of_the_folder_is_not_followed(small: PublishedFolder, tmp_path: Path) -> None:
    out, elsewhere = copied(small, tmp_path), tmp_path / "elsewhere"
    shutil.move(out / "models", elsewhere)
    (out / "models").symlink_to(elsewhere)
    with pytest.raises(OptionError, match="leads out of the folder"):
        publish(write_rows(tmp_path / "small.jsonl", plain(60)), out)


def test_a_kill_while_files_are_replaced_is_mended_by_publishing_again(
    small: PublishedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, other = copied(small, tmp_path), write_rows(tmp_path / "other.jsonl", plain(120))
    replaced, real = [], Path.replace

    def killed(source: Path, target: Path) -> Path:
        if target.parent == out / "models":
            raise KeyboardInterrupt
        replaced.append(target)
        return real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(other, out)
    assert out / "battles.jsonl" in replaced
    assert check(out).problems != []
    publish(other, out)
    assert check(out).problems == []
    assert not (out / ".published.next.json").exists()


def test_a_source_that_changes_while_it_is_read_is_refused(
    plain_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, real = tmp_path / "growing.jsonl", ty.read_battles
    growing.write_bytes(plain_file.read_bytes())

    def read(*arguments: Any, **more: Any) -> Any:
        found = real(*arguments, **more)
        with growing.open("ab") as file:
            file.write(plain_file.read_bytes().splitlines(keepends=True)[0])
        return found

    monkeypatch.setattr("tiltyard.verbs.publish.read_battles", read)
    with pytest.raises(TiltyardError, match="changed while it was read"):
        publish(growing, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_dimensions_have_a_board_each_and_rules_are_kept(tmp_path: Path) -> None:
    rows = [*({**row, "dimension": name} for name, n in (("clear", 120), ("correct/../x", 130)) for row in plain(n))]
    rules: dict[str, Any] = {"ties": "half", "anchor": ("model 1", 1200.0), "min_battles": 5}
    done = publish(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "site", **rules)
    assert [one.dimension for one in done.publication.boards] == ["clear", "correct/../x"]
    assert [one.board["model 1"].rating for one in done.publication.boards] == [1200.0, 1200.0]
    assert check(done.folder).problems == []
    rated = ty.rate(done.folder / "battles.parquet", dimension="clear", ties="half", anchor=("model 1", 1200.0))
    assert rated.ratings == pytest.approx(done.publication.boards[0].board.ratings, abs=1e-9)


def test_the_column_file_holds_what_it_was_made_of() -> None:
    rows = [{**row, "weight": 1.5, "inconsistent": row["winner"] == "tie"} for row in world(60)]
    del rows[0]["category"], rows[1]["timestamp"]
    table, _ = publishable(ty.read_battles(rows), texts=False)
    data = column_file(table)
    assert data[:8] == b"TYCOLS1\n"
    start = 12 + int.from_bytes(data[8:12], "little")
    assert start % 8 == 0
    header = json.loads(data[12:start])
    kinds = {"u8": "<u1", "u16": "<u2", "i32": "<i4", "f64": "<f8"}
    columns = {
        one["name"]: np.frombuffer(data, kinds[one["type"]], header["rows"], start + one["at"])
        for one in header["columns"]
    }
    assert tuple(header["models"]) == table.models
    assert (columns["model_a"] == table.model_a).all()
    assert (columns["weight"] == 1.5).all()
    assert columns["category"][0] == 0
    assert columns["day"][1] == -(2**31)
    assert columns["day"][2] == 1_700_000_000 // 86_400 + 2
