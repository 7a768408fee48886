"""`tiltyard review`: a team says blind which of two answers is better; agreement, labels, and what they change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tiltyard.cli.options import ArenaApp, daily_first, rare, split_names
from tiltyard.cli.output import note, say

app = ArenaApp(
    no_args_is_help=True,
    cls=daily_first("start", "serve", "status", "export", "close"),
    help="A team's own verdicts: private links, blind pairs, agreement, labels.",
)

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The review's folder, made by `review start`.")]


@app.command("start")
def start_command(
    source: list[Path] = typer.Argument(
        ...,
        help="A run folder, a file of battles with their answers, a folder of answers, or two answer files.",
        show_default=False,
    ),
    people: list[str] = typer.Option(
        ..., metavar="NAMES", help="Who reviews, separated by commas; the names stay in a private file."
    ),
    each: int = typer.Option(2, min=1, max=50, help="How many people review every item."),
    n: int | None = typer.Option(None, help="How many matchups to draw at random; without it, all."),
    adjudicator: list[str] | None = typer.Option(None, metavar="NAMES", help="Who decides where reviewers disagree."),
    out: Path | None = typer.Option(
        None, metavar="DIR", help="The review's folder; without it, the source's name and -review."
    ),
    dimension: str | None = typer.Option(None, help="Only this dimension of a run."),
    prompts: Path | None = typer.Option(None, help="The prompts of answer files that do not say what was asked."),
    until: str | None = typer.Option(
        None, metavar="RULE", help="Close by itself: better (one of two models is), or width:80 (no interval is wider)."
    ),
    draw: Literal["by-pair", "simple"] = rare(
        "by-pair", help="Draw from every pair of models in proportion, or from all at once."
    ),
    seed: int = rare(0, help="Seed of the draw and of who reviews what."),
    names: Literal["after-close", "after-vote"] = rare(
        "after-close", help="When reviewers learn who wrote the answers."
    ),
    db: str | None = rare(None, metavar="URL", help="postgresql://…; without it, a file in the review's folder."),
) -> None:
    """Draw matchups, assign them to people, and make a private link for everybody."""
    from tiltyard.verbs.review import read_source, start_review

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
    host: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 is every address of the machine."),
    port: int = typer.Option(8000, min=1, max=65_535, help="Port to listen on."),
    workers: int = rare(1, min=1, max=256, help="Processes; more than one needs PostgreSQL."),
    title: str = typer.Option("Review", help="What the site is called."),
    public_url: str | None = typer.Option(
        None, metavar="URL", help="The address that reviewers use, where a proxy hides it."
    ),
    trusted_proxy: list[str] | None = typer.Option(
        None, metavar="NETWORK", help="Believe forwarded addresses from here (10.0.0.0/8); may be given again."
    ),
) -> None:
    """Open the review's site, and print everybody's private link."""
    from tiltyard.verbs.review import serve

    about = {"title": title, "public_url": public_url, "trusted_proxies": tuple(trusted_proxy or ())}
    serve(folder, host, port, workers, say=say, note=note, **about)


@app.command("status")
def status_command(
    folder: FolderArgument,
    format: Literal["table", "json"] = typer.Option("table", help="For people, or for programs."),
) -> None:
    """Show how far everybody is and how the team agrees, with everybody's link."""
    from tiltyard.verbs.review import status

    say(status(folder).render(format).rstrip())


@app.command("people")
def people_command(
    folder: FolderArgument,
    add: list[str] | None = typer.Option(None, metavar="NAMES", help="Let these people join."),
    remove: list[str] | None = typer.Option(
        None, metavar="NAMES", help="Let these leave: their links end, the rest goes to others."
    ),
    new_link: list[str] | None = typer.Option(None, metavar="NAMES", help="Give these a new link; the old one ends."),
    erase: list[str] | None = typer.Option(
        None, metavar="NAMES", help="Erase the names and links of people who left; their votes stay."
    ),
) -> None:
    """Add or remove people, or replace a link, also while the review is served; prints all links."""
    from tiltyard.verbs.review import change_people, erase_names, links_text, read_review

    review = read_review(folder).review
    if add or remove or new_link:
        review = change_people(review, add=split_names(add), remove=split_names(remove), new_link=split_names(new_link))
    if erase:
        review = erase_names(review, split_names(erase))
        note("erased from links.json and the database; delete copies of them, and logs with the links")
    say(links_text(review))


@app.command("export")
def export_command(
    folder: FolderArgument,
    to: Literal["labels", "preferences", "report"] = typer.Option(
        "labels", help="Labels, battles and reviews; pairs for training (prompt, chosen, rejected); a page."
    ),
) -> None:
    """Write labels.jsonl, battles.jsonl and reviews.jsonl, or preferences.jsonl or report.html, into its folder."""
    from tiltyard.files import write_lines
    from tiltyard.verbs.review import export, preference_rows, read_review, write_report

    result = read_review(folder)
    if to == "report":
        say(str(write_report(result)))
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
    from tiltyard.verbs.review import close, status_text

    result, was_open = close(folder)
    if not was_open:
        note("the review was closed before; its files are written again")
    say(status_text(result))
    note(f"labels.jsonl, battles.jsonl, reviews.jsonl and report.html are in {folder}")
