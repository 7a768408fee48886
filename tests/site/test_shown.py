"""Answers that are files: their addresses, their headers, and votes that say that one could not be shown."""

from __future__ import annotations

import base64
import gzip
import re

import pytest
from starlette.testclient import TestClient

from tests.arena.databases import rule_above_the_store
from tests.site.file_answers import TYPES, add_files, only
from tests.site.sites import MODELS, SECRET, SmallSite, small_site
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import PART_BYTES
from tiltyard.arena.store.files import CleanFile
from tiltyard.errors import ArenaError, OptionError
from tiltyard.site.answer_files import INERT, SANDBOX, page_start
from tiltyard.site.answer_links import AnswerLinks
from tiltyard.site.settings import SiteSettings


def served(client: TestClient) -> dict[str, str]:
    answer = client.post("/api/v1/matchups", json={})
    assert answer.status_code == 201, answer.text
    found: dict[str, str] = answer.json()
    return found


def test_both_sides_have_the_same_headers_and_nothing_that_tells_them_apart(sqlite_site: SmallSite) -> None:
    arena, client = sqlite_site.arena, sqlite_site.client()
    arena.append([e.PromptDisabled(prompt_id=f"p{j}") for j in range(3)])
    for kind in TYPES:
        made = add_files(arena, kind)
        matchup = served(client)
        assert matchup["kind"] == kind
        answers = [client.get(matchup[f"url_{side}"], headers={"accept-encoding": "identity"}) for side in "ab"]
        headers = [dict(answer.headers) for answer in answers]
        assert headers[0] == headers[1]
        assert headers[0]["content-type"] == TYPES[kind]
        assert headers[0]["content-security-policy"] == (SANDBOX if kind == "html" else INERT)
        assert headers[0]["x-content-type-options"] == "nosniff"
        assert headers[0]["cross-origin-resource-policy"] == "same-origin"
        assert headers[0]["cache-control"] == "private, no-store"
        assert not {"etag", "last-modified", "content-disposition", "set-cookie"} & headers[0].keys()
        receipt = client.post(f"/api/v1/matchups/{matchup['matchup_id']}/vote", json={"choice": "A"}).json()
        start = page_start() if kind == "html" else b""
        assert [start + made[receipt[f"model_{side}"]] for side in "ab"] == [answer.content for answer in answers]
        assert client.get(matchup["url_a"]).content == answers[0].content  # also after the vote
        assert answers[0].headers["connection-allowlist"] == "()"
        opened = client.get(matchup["url_a"], headers={"sec-fetch-dest": "document"})
        assert opened.headers["content-security-policy"] == INERT  # nothing runs where somebody opens the address
        arena.append([e.PromptDisabled(prompt_id=kind)])


@rule_above_the_store
def test_a_file_is_sent_compressed_or_in_ranges(site_anywhere: SmallSite) -> None:
    length = 2 * PART_BYTES + 1000
    made = only(site_anywhere.arena, "video", length)
    client = site_anywhere.client()
    matchup = served(client)
    whole = client.get(matchup["url_a"])
    assert whole.content in made.values()
    assert whole.headers["accept-ranges"] == "bytes"
    for asked, start, end in (
        ("bytes=0-9", 0, 10),
        (f"bytes={PART_BYTES - 5}-{2 * PART_BYTES + 5}", PART_BYTES - 5, 2 * PART_BYTES + 6),
        (f"bytes={length - 7}-", length - 7, length),
        ("bytes=-7", length - 7, length),
        (f"bytes=5-{length * 9}", 5, length),
    ):
        part = client.get(matchup["url_a"], headers={"range": asked})
        assert part.status_code == 206
        assert part.content == whole.content[start:end]
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{length}"
    for asked in (f"bytes={length}-", "bytes=-0"):
        assert client.get(matchup["url_a"], headers={"range": asked}).status_code == 416
    for asked in ("bytes=5-2", "bytes=-", "bytes=0-1,3-4", "lines=1-2"):
        answer = client.get(matchup["url_a"], headers={"range": asked})
        assert (answer.status_code, len(answer.content)) == (200, length)
    head = client.head(matchup["url_a"])
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(length))


def test_what_compresses_well_is_compressed(sqlite_site: SmallSite) -> None:
    only(sqlite_site.arena, "voxel", 50_000)
    client = sqlite_site.client()
    matchup = served(client)
    with client.stream("GET", matchup["url_a"], headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
    assert len(raw) < 5_000
    for refused in ("gzip;q=0", "gzip; q=0.000, br", "identity", "notgzip"):
        with client.stream("GET", matchup["url_a"], headers={"accept-encoding": refused}) as answer:
            assert "content-encoding" not in answer.headers
    with client.stream("GET", matchup["url_a"], headers={"accept-encoding": "br;q=1, x-gzip ; q=0.5"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == client.get(matchup["url_a"], headers={"accept-encoding": "identity"}).content


def test_an_address_that_was_not_given_leads_nowhere(sqlite_site: SmallSite) -> None:
    only(sqlite_site.arena, "image")
    client = sqlite_site.client()
    url = served(client)["url_a"]
    wrong = [url[:-1] + ("A" if url[-1] != "A" else "B"), url[:-4], url + "AAAA", "/shown/" + "A" * 60, "/shown/x"]
    assert [client.get(address).status_code for address in wrong] == [404] * len(wrong)
    assert [client.head(address).status_code for address in wrong] == [404] * len(wrong)
    assert client.get(url).status_code == 200


def test_an_answer_that_could_not_be_shown_counts_as_the_policy_says(sqlite_site: SmallSite) -> None:
    from tiltyard.arena import read_policy

    arena = sqlite_site.arena
    only(arena, "html")
    for counts, said, choice in (
        ("loss", "A", "B"),
        ("loss", "B", "A"),
        ("loss", "AB", "BOTH_BAD"),
        ("both_bad", "A", "BOTH_BAD"),
    ):
        arena.append([e.SettingsChanged(policy=read_policy({"bank": {"unrendered_counts": counts}}))])
        client = sqlite_site.client()
        vote = f"/api/v1/matchups/{served(client)['matchup_id']}/vote"
        assert client.post(vote, json={"unrendered": said, "choice": "A"}).status_code == 400
        assert client.post(vote, json={"unrendered": "C"}).status_code == 400
        assert client.post(vote, json={}).status_code == 400
        answer = client.post(vote, json={"unrendered": said})
        assert (answer.status_code, answer.json()["choice"]) == (200, choice)
        assert client.post(vote, json={"unrendered": said}).status_code == 200
        assert client.post(vote, json={"choice": choice}).status_code == 409
        sqlite_site.observatory.refresh()
        rows = client.get("/api/v1/battles.jsonl").text.splitlines()
        assert f'"unrendered":"{said}"' in rows[-1]
    assert verify(sqlite_site.url).clean


def test_a_text_can_always_be_shown(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    matchup = served(client)
    assert matchup["kind"] == "text"
    assert "url_a" not in matchup
    answer = client.post(f"/api/v1/matchups/{matchup['matchup_id']}/vote", json={"unrendered": "A"})
    assert answer.status_code == 400
    assert "texts" in answer.json()["error"]["message"]


def test_answers_of_two_kinds_to_one_prompt_are_refused(sqlite_site: SmallSite) -> None:
    arena = sqlite_site.arena
    add_files(arena, "image")
    text = e.ResponseAdded(response_id="t", model=MODELS[0], prompt_id="image", text="A text.")
    with pytest.raises(ArenaError, match="kind image, and this one is of kind text"):
        arena.append([text])
    file = CleanFile(content=b"<svg/>", media_type="image/svg+xml")
    svg = e.ResponseAdded(
        response_id="s", model=MODELS[0], prompt_id="p0", text="", answer_kind="svg", file=file.sha256
    )
    with pytest.raises(ArenaError, match="kind text, and this one is of kind svg"):
        arena.append([svg], [file])
    with pytest.raises(ArenaError, match="not in the arena"):
        arena.append([e.PromptAdded(prompt_id="new", text="?"), _on(svg, "new")])
    arena.append([e.PromptAdded(prompt_id="new", text="?"), _on(svg, "new")], [file])


def test_an_address_does_not_say_which_side_it_is() -> None:
    links = AnswerLinks(SECRET)
    tokens = [
        links.url(f"matchup-{number:02}", side, "svg").rpartition("/")[2] for number in range(50) for side in ("A", "B")
    ]
    assert [links.read(token) for token in tokens[:2]] == [("matchup-00", "A"), ("matchup-00", "B")]
    columns = list(zip(*(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)) for token in tokens), strict=True))
    assert all(len(set(column)) > 50 for column in columns), "a letter of the side or of the matchup is readable"


def test_an_answer_that_an_administrator_switched_off_is_gone(sqlite_site: SmallSite) -> None:
    only(sqlite_site.arena, "image")
    client = sqlite_site.client()
    matchup = served(client)
    assert client.get(matchup["url_a"]).status_code == 200
    sqlite_site.arena.append([e.ResponseDisabled(response_id=f"image-{number}") for number in range(len(MODELS))])
    sqlite_site.observatory.refresh()
    assert [client.get(matchup[f"url_{side}"]).status_code for side in "ab"] == [404, 404]
    links = AnswerLinks(SECRET)
    by_id = (
        links.public_url("image-0", "image"),
        links.operator_url("image-0", "image"),
        links.operator_url("nothing", "svg"),
    )
    assert [client.get(address).status_code for address in by_id] == [404, 200, 404]


def test_pages_that_show_authors_show_their_files(sqlite_site: SmallSite) -> None:
    from tiltyard.arena import read_policy

    made = only(sqlite_site.arena, "image")
    client = sqlite_site.client()
    client.post(f"/api/v1/matchups/{served(client)['matchup_id']}/vote", json={"choice": "A"})
    sqlite_site.observatory.refresh()
    assert client.get("/me").text.count('<img src="/shown/') == 2
    hidden = client.get(f"/models/{MODELS[0]}?prompt=image").text
    assert "/shown/" not in hidden
    sqlite_site.arena.append([e.SettingsChanged(policy=read_policy({"texts_public": "always"}))])
    sqlite_site.observatory.refresh()
    for address in (f"/models/{MODELS[0]}?prompt=image", f"/compare?a={MODELS[0]}&b={MODELS[1]}&prompt=image"):
        shown = re.search(r'<img src="(/shown/[^"]+)"', client.get(address).text)
        assert shown is not None
        assert client.get(shown[1]).content == made[MODELS[0]]
    add_files(sqlite_site.arena, "voxel")
    sqlite_site.observatory.refresh()
    page = client.get(f"/compare?a={MODELS[0]}&b={MODELS[1]}&prompt=voxel").text
    assert page.count('class="view" data-kind="voxel"') == 2
    assert "/static/views.js" in page
    assert "/static/views.js" not in client.get("/compare").text


def _on(body: e.ResponseAdded, prompt_id: str) -> e.ResponseAdded:
    import msgspec

    return msgspec.structs.replace(body, prompt_id=prompt_id)


def test_a_second_host_serves_answers_to_the_site_alone_and_nothing_else(filled_url: str) -> None:
    here, there = {"host": "arena.example.org"}, {"host": "Answers.example.net"}
    with small_site(filled_url, public_url="https://arena.example.org", answers_host="answers.example.net") as site:
        only(site.arena, "html")
        client = site.client()
        client.headers.update(here)
        assert "frame-src 'self' answers.example.net;" in client.get("/").headers["content-security-policy"]
        addresses = [served(client)[f"url_{side}"] for side in "ab"]
        assert {address.partition("/shown/")[0] for address in addresses} == {"//answers.example.net"}
        path = addresses[0].removeprefix("//answers.example.net")
        answer = client.get(path, headers=there)
        assert answer.status_code == 200
        assert "frame-ancestors https://arena.example.org;" in answer.headers["content-security-policy"]
        for other in ("/", "/leaderboard", "/api/v1/leaderboard", "/healthz", "/static/vote.js", "/shown/nothing"):
            refused = site.client().get(other, headers=there)
            assert refused.status_code == 404, other
            assert "Test arena" not in refused.text
            assert "set-cookie" not in refused.headers
        assert site.client().post("/start", headers=there).status_code == 404


@pytest.mark.parametrize(
    ("host", "url", "named"),
    [
        ("a.example", None, "public-url"),
        ("https://a.example", "https://b.example", "https://a.example"),
        ("b.example", "https://b.example", "public-url"),
        ("a; script-src *", "https://b.example", "script-src"),
    ],
)
def test_a_second_host_that_cannot_be_one_is_named(host: str, url: str | None, named: str) -> None:
    with pytest.raises(OptionError, match=re.escape(named)):
        SiteSettings(db="sqlite:///none.db", public_url=url, answers_host=host)
