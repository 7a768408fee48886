"""`tiltyard review`: a team says blind which of two answers is better; agreement, labels, and what they change."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.arena_options import need_arena
from tiltyard.cli.options import App, daily_first, rare, split_names
from tiltyard.cli.output import note, say

app = App(
    no_args_is_help=True,
    cls=daily_first("start", "serve", "status", "export", "close"),
    help="A team's own verdicts: private links, blind pairs, agreement, labels.",
)

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The review's folder, made by `review start`.")]


@app.command("start")
def start_command(
    source: Annotated[
        list[Path],
        typer.Argument(
            help="A run folder, a file of battles with their answers, a folder of answers, or two answer files.",
            show_default=False,
        ),
    ],
    people: Annotated[
        list[str],
        typer.Option(metavar="NAMES", help="Who reviews, separated by commas; the names stay in a private file."),
    ],
    each: Annotated[int, typer.Option(min=1, max=50, help="How many people review every item.")] = 2,
    n: Annotated[int | None, typer.Option(help="How many matchups to draw at random; without it, all.")] = None,
    adjudicator: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Who decides where reviewers disagree.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The review's folder; without it, the source's name and -review.")
    ] = None,
    dimension: Annotated[str | None, typer.Option(help="Only this dimension of a run.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="The prompts of answer files that do not say what was asked.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="Close by itself: better (one of two models is), or width:80 (no interval is wider)."
        ),
    ] = None,
    draw: Annotated[
        Literal["by-pair", "simple"], rare(help="Draw from every pair of models in proportion, or from all at once.")
    ] = "by-pair",
    seed: Annotated[int, rare(help="Seed of the draw and of who reviews what.")] = 0,
    names: Annotated[
        Literal["after-close", "after-vote"], rare(help="When reviewers learn who wrote the answers.")
    ] = "after-close",
    db: Annotated[
        str | None, rare(metavar="URL", help="postgresql://…; without it, a file in the review's folder.")
    ] = None,
) -> None:
    """Draw matchups, assign them to people, and make a private link for everybody."""
    need_arena()
    from tiltyard.review.desk import start_review
    from tiltyard.review.sources import read_source

    folder = out or Path(f"{str(source[0]).rstrip('/')}-review" if len(source) == 1 else "review")
    if len(source) == 1 and source[0].is_file() and out is None:
        folder = source[0].with_name(f"{source[0].stem}-review")
    review, notes = start_review(
        read_source(source, dimension=dimension, prompts=prompts),
        folder,
        split_names(people),
        places=source,
        adjudicators=split_names(adjudicator),
        each=each,
        n=n,
        draw_method=draw,
        seed=seed,
        names_after_vote=names == "after-vote",
        until=until,
        db=db,
    )
    for line in notes:
        note(line)
    items, of = len(review.record.items), review.record.population
    reviewers = len(split_names(people))
    note(
        f"{items:,} of {of:,} matchups, {each} {'review' if each == 1 else 'reviews'} each: about "
        f"{items * each / reviewers:,.0f} for each of {reviewers} people. Open it: tiltyard review serve {folder}"
    )


@app.command("serve")
def serve_command(
    folder: FolderArgument,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every address of the machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
    workers: Annotated[int, rare(min=1, max=256, help="Processes; more than one needs PostgreSQL.")] = 1,
    title: Annotated[str, typer.Option(help="What the site is called.")] = "Review",
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The address that reviewers use, where a proxy hides it.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="NETWORK", help="Believe forwarded addresses from here (10.0.0.0/8); may be given again."),
    ] = None,
) -> None:
    """Open the review's site, and print everybody's private link."""
    need_arena()
    from tiltyard.arena.store import Store
    from tiltyard.review.desk import open_review, served_at
    from tiltyard.web.checkup import is_private
    from tiltyard.web.serving import bound_sockets, serve
    from tiltyard.web.settings import SiteSettings, secrets_of

    review = open_review(folder)
    settings = SiteSettings(
        db=review.url,
        title=title,
        secret=secrets_of()[0],
        public_url=public_url,
        trusted_proxies=tuple(trusted_proxy or ()),
        rate_limit=False,
        review=folder,
    )
    sockets = bound_sockets(host, port)
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104 - only said
    review = served_at(review, settings.public_url or f"http://{shown}:{port}")
    say(_links(review))
    if not settings.secret:
        with closing(Store.open(review.url)) as store:
            note(store.outside.about_secret())
    note("serving the review (Ctrl-C stops; everything that was said is kept)")
    if not is_private(host):
        note("for the open internet, put a proxy in front: this server has no TLS and waits for slow clients")
    serve(settings, workers=workers, sockets=sockets)


def _links(review: Any) -> str:
    active = [person for person in review.links.people if person.active]
    width = max(len(person.name) for person in active)
    return "\n".join(f"{person.name:<{width}}  {review.link(person)}" for person in active)


@app.command("status")
def status_command(
    folder: FolderArgument,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people, or for programs.")] = "table",
) -> None:
    """Show how far everybody is and how the team agrees, with everybody's link."""
    need_arena()
    from tiltyard.files import json_text
    from tiltyard.review.desk import open_review
    from tiltyard.review.results import ReviewResult, status_values

    result = ReviewResult.of(open_review(folder))
    if format == "json":
        say(json_text(status_values(result)).rstrip())
        return
    say(status_text(result))
    say()
    say(_links(result.review))


def status_text(result: Any) -> str:
    """The status as people read it, without the links."""
    from tiltyard.review.results import agreement_sentence, conclusion, look, percent, remarks

    width = max(len(result.review.name(one.key)) for one in result.people)
    lines = []
    for one in result.people:
        name = f"{result.review.name(one.key):<{width}}"
        of = one.done + one.cannot + one.left
        parts = [f"{one.done + one.cannot} of {of}"]
        parts += [f"{one.cannot} cannot judge"] if one.cannot else []
        parts += [f"{one.seconds:.0f} s an item"] if one.seconds is not None else []
        parts += (
            [f"same as the others in {percent(one.rest.own)}"] if one.rest is not None and one.rest.own.known else []
        )
        parts += ["adjudicator"] if one.is_adjudicator else []
        lines.append(f"{name}  {', '.join(parts)}")
    labels = ", ".join(f"{result.how[how]} {how}" for how in ("agreed", "majority", "adjudicated", "open"))
    lines += ["", f"{len(result.log.items)} items: {labels}", agreement_sentence(result), *remarks(result)]
    if result.log.rules.closed:
        why, rule = result.log.rules.why_closed, result.review.record.until
        lines.append(f"the review closed by itself (until {rule}): {why}" if why else "the review is closed")
        for name in dict.fromkeys(item.dimension for item in result.review.record.items):
            if said := conclusion(result, name):
                lines += ["", f"{f'{name}: ' if name else ''}{said}"]
    elif (at := look(result)) is not None:
        lines.append(f"until {result.review.record.until}: {at.sentence}")
    return "\n".join(lines)


@app.command("people")
def people_command(
    folder: FolderArgument,
    add: Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Let these people join.")] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Let these leave: their links end, the rest goes to others."),
    ] = None,
    new_link: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Give these a new link; the old one ends.")
    ] = None,
    erase: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Erase the names and links of people who left; their votes stay."),
    ] = None,
) -> None:
    """Add or remove people, or replace a link, also while the review is served; prints all links."""
    need_arena()
    from tiltyard.review.desk import change_people, erase_names, open_review

    review = open_review(folder)
    if add or remove or new_link:
        review = change_people(review, add=split_names(add), remove=split_names(remove), new_link=split_names(new_link))
    if erase:
        review = erase_names(review, split_names(erase))
        note("erased from links.json and the database; delete copies of them, and logs with the links")
    say(_links(review))


@app.command("export")
def export_command(
    folder: FolderArgument,
    to: Annotated[
        Literal["labels", "preferences", "report"],
        typer.Option(help="Labels, battles and reviews; pairs for training (prompt, chosen, rejected); a page."),
    ] = "labels",
) -> None:
    """Write labels.jsonl, battles.jsonl and reviews.jsonl, or preferences.jsonl or report.html, into its folder."""
    need_arena()
    from tiltyard.files import write_lines
    from tiltyard.review.desk import open_review
    from tiltyard.review.results import ReviewResult, export, preference_rows

    result = ReviewResult.of(open_review(folder))
    if to == "report":
        say(str(_write_report(result)))
        return
    if to == "preferences":
        rows = list(preference_rows(result))
        write_lines(folder / "preferences.jsonl", rows, private=True)
        note(f"{len(rows):,} pairs in {folder / 'preferences.jsonl'}; ties, open items and files make none")
        return
    for path in export(result):
        say(str(path))


@app.command("close")
def close_command(folder: FolderArgument) -> None:
    """End the review: nobody votes any more, names are shown, and labels and a report are written."""
    need_arena()
    from tiltyard.review.desk import close_review, open_review
    from tiltyard.review.results import ReviewResult, export

    review = open_review(folder)
    if not close_review(review):
        note("the review was closed before; its files are written again")
    result = ReviewResult.of(review)
    export(result)
    _write_report(result)
    say(status_text(result))
    note(f"labels.jsonl, battles.jsonl, reviews.jsonl and report.html are in {folder}")


def _write_report(result: Any) -> Path:
    from tiltyard.files import write_text
    from tiltyard.reporting.review import review_page

    path: Path = result.review.folder / "report.html"
    write_text(path, review_page(result))
    return path
