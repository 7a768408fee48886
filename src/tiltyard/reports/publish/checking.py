"""Checking a folder: it is made again from what is vouched for, by what wrote it, and every file is compared.

Of a published board the battles are vouched for, of an arena its witness, of a run or placement its verdicts. Nothing
in the folder decides what is compared. What only its operator or maker can know is told as theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections import deque
from collections.abc import Collection, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np

from tiltyard.analysis.boards import RatingsFile
from tiltyard.arena import Finding, KeptProof, check_witness
from tiltyard.data.battles import read_battles, same_parquet
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import write_arrays
from tiltyard.judge.placement import folder as placement
from tiltyard.judge.tournament import remaking
from tiltyard.judge.verdicts import read_object, require, versions
from tiltyard.options import PublishOptions
from tiltyard.render import is_unseen, look_alikes, plural, points, shortened
from tiltyard.reports import write_report
from tiltyard.reports.publish.arenas import SALTS, WITNESS, witness_site
from tiltyard.reports.publish.fetching import MOST_MANIFEST, bounded_lines
from tiltyard.reports.publish.folder import MANIFEST, PublishedManifest, read_manifest, writer_hash
from tiltyard.reports.publish.pages import BOARD_CARD
from tiltyard.reports.publish.publication import LONGEST_WORDS, StaticSite, static_site
from tiltyard.reports.publish.site import NAMES, PARQUET, PROMPTS, site_files

AGREE = 1e-9
"""How far, and by what share, numbers with decimals may differ: other processors round the last digits differently."""

DECIMAL = re.compile(
    rb'(?:(?<=":)|(?<=": )|(?<=<data value=")|(?<=, )(?=[\d.e+-]+\])|(?<=  )(?=[\d.e+-]+,?\n))'
    rb"-?(?:0|[1-9]\d{0,17})\.(?:0|\d{0,21}[1-9])(?:e[+-]?\d+)?(?![\d.])"
)
"""A number with decimals where a file has a value, written as shortly as it can be: in JSON, and behind a figure of a
page; in no name and no text."""

PNG = b"\x89PNG\r\n\x1a\n"

PAGES = (".html", ".atom", ".png")
FIELDS = ("rating", "ci_low", "ci_high", "rank", "rank_low", "rank_high", "n_battles", "wins", "losses", "ties")
"""What is compared of a line of a board that another version wrote."""

RATED = ("battles.jsonl", "elo_", "ratings/", "verdicts", "pairwise_winrates.csv")
"""How the names of a run's files begin that are compared whichever version wrote them."""

SLACK = 1_000_000
"""Bytes by which a file may be longer than twice the one that is made, to be read at all."""

SHOWN, LONGEST = 20, 200
"""Models of a board, and letters of a maker's word, that are printed."""

FAILURES = (TiltyardError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What goes wrong where a folder says what no folder of ours says."""


def check_folder(folder: Path, besides: Collection[str], kept: KeptProof) -> Finding:
    """Publish a folder again from its battles or its witness, and compare every file of it but those `besides`."""
    files, _ = files_of(folder)
    if MANIFEST not in files:
        raise TiltyardError(f"{folder} has no {MANIFEST}: it is no published board.")
    _check_size(folder / MANIFEST)
    data = (folder / MANIFEST).read_bytes()
    manifest, fingerprint = read_manifest(data, f"{folder}: {MANIFEST}"), hashlib.sha256(data).hexdigest()
    result, site, made = Finding(), None, set[str]()
    if kept.fingerprint not in ("", fingerprint):
        result.problems.append(f"the fingerprint is {fingerprint}, not the one that was kept")
    ours = manifest.writer == writer_hash()
    try:
        site = _again(folder, files, manifest)
        with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
            comparison = _Comparison(result, folder, files, Path(spare), site, manifest.files, ours)
            made = {name for name, _ in site_files(site, Path(spare), comparison.kept)}
        foreign = set[str]() if ours else {name for name in manifest.files if name.endswith(PAGES)} - made
        result.not_compared += [] if ours else [MANIFEST, *sorted(foreign & files)]
        result.problems += strangers(folder, made | foreign, besides)
        result.problems += [f"{name} is missing" for name in sorted(manifest.files.keys() - files - made)]
    except FAILURES as error:
        result.problems.append(f"it cannot be published again: {error}")
    proved = _check_evidence(folder / WITNESS, manifest.source, kept)
    result.problems += proved.problems
    words = _operators_words(manifest, site)
    result.messages = ["published board; of its operator, and not checked:", *(f"  {one}" for one in words)]
    for one in () if site is None else site.boards:
        lines = [f"{row.rank:>4}  {points(row.rating):>6}  {shortened(row.model)}" for row in one.board.entries]
        more = [f"      and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
        result.messages += [*([] if one.dimension is None else [one.dimension]), *lines[:SHOWN], *more]
    result.messages += [*proved.messages, f"fingerprint: {fingerprint}"]
    result.values = {
        **({"witness": proved.values} if proved.values else {}),
        "title": manifest.title,
        "source": manifest.source,
        "fingerprint": fingerprint,
        "battles": manifest.battles,
        "files": len(manifest.files),
        "operator": words,
        "rules": msgspec.to_builtins(manifest.rules),
        "not_compared": result.not_compared,
        "boards": {} if site is None else {one.file: one.board.ratings for one in site.boards},
    }
    if site is not None:
        result.agreement = _agreement(result, manifest, site, kept, ours=ours)
    return result


def _check_evidence(path: Path, made_from: str, kept: KeptProof) -> Finding:
    """What the witness of a published arena agrees with besides its battles: heads, boards, votes."""
    if made_from != "arena" or path.is_symlink() or not path.is_file():
        if kept.of_an_arena:
            raise OptionError("this board has no witness: heads, keys and receipts are for those of an arena.")
        return Finding()
    try:
        return check_witness(bounded_lines(path), WITNESS, kept)
    except (ValueError, TiltyardError) as error:
        return Finding(problems=[f"{WITNESS} cannot be read: {error}"])


def _operators_words(manifest: PublishedManifest, site: StaticSite | None) -> list[str]:
    """What only its operator can know, a line each; nothing here can check it."""
    words = {
        "title": manifest.title,
        "address": manifest.url,
        "made from": "" if manifest.source in ("arena", "battles") else f"a {manifest.source}",
        "texts of prompts": "" if site is None or not site.texts else f"{len(site.texts):,}",
        "missing": manifest.missing,
        **({} if site is None else {f"title of {model}": name for model, name in site.names.items()}),
    }
    names = set[str]()
    if site is not None:
        names = {*site.table.models, *site.names.values(), *(one.dimension or "" for one in site.boards)}
    return [
        *(f"{name}: {word}" for name, word in words.items() if word),
        *(f"note: {note}" for note in manifest.notes),
        *(f"a name with letters that nobody sees: {name!a}" for name in sorted(names) if any(map(is_unseen, name))),
    ]


def _agreement(result: Finding, manifest: PublishedManifest, site: StaticSite, kept: KeptProof, *, ours: bool) -> str:
    """What was compared with what, and whom one has to trust for the rest."""
    arena, part = manifest.source == "arena", bool(result.not_compared)
    battles = plural(round(site.table.n_battles), "battle") + (" of its witness" if arena else "")
    what = "ratings and ranges are what" if part else "ratings, ranges and pages are what these"
    words = [f"{what} {battles} give under these rules ({manifest.rules.sentence})."]
    if part:
        more = f" and {len(result.not_compared) - 5:,} more" if len(result.not_compared) > 5 else ""
        files = f"({', '.join(result.not_compared[:5])}{more})"
        words.append(
            f"Not compared: pictures that other libraries drew, or a Parquet file that another one wrote {files}."
            if ours
            else f"Not compared: pages and files that another version wrote {files}. Check them with that version: "
            f"tiltyard {manifest.tiltyard_version}, writer {manifest.writer}; this is writer {writer_hash()}."
        )
    if kept.fingerprint:
        words.append("It is the folder whose fingerprint you kept, unchanged since.")
    who = "Whoever runs the arena could have written another log"
    if arena and (kept.heads or kept.keys):
        words.append("Nobody but its operator vouches for what came after the head you kept, or was signed.")
    else:
        who = who if arena else "Whoever published it could have changed the battles"
        words.append(f"{who}{' before' if kept.fingerprint else ''}.")
    return " ".join(words)


def strangers(folder: Path, made: Collection[str], besides: Collection[str]) -> Iterator[str]:
    """What is in a folder, neither `made` nor `besides`, which the reader knows to be others', a line each."""
    files, others = files_of(folder)
    for name in sorted({*files, *others} - {*made} | others.keys()):
        if not any(f"{name}/".startswith(f"{one.rstrip('/')}/") for one in besides):
            stranger = f"is no file of this folder. If it is the host's, say --besides {name}"
            yield f"{name} {others.get(name, stranger)}"


def files_of(folder: Path) -> tuple[set[str], dict[str, str]]:
    """The files of a folder by path, and what is none and no folder with files: nothing leads out of it."""
    files, others = set[str](), dict[str, str]()
    for home, folders, names in os.walk(folder):
        for path in (Path(home) / entry for entry in (*folders, *names)):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                others[name] = "is a symbolic link, which is not followed"
            elif path.is_file():
                files.add(name)
            elif not path.is_dir() or not any(path.iterdir()):
                others[name] = "is an empty folder" if path.is_dir() else "is no file"
    return files, others


def _again(folder: Path, files: set[str], manifest: PublishedManifest) -> StaticSite:
    """The publication that a folder has to be, from its evidence and its operator's words."""
    options = PublishOptions(
        title=manifest.title,
        url=manifest.url,
        pictures=BOARD_CARD in manifest.files,
        texts=manifest.texts,
        ties=manifest.rules.ties,
        anchor=manifest.rules.anchor,
        min_battles=manifest.rules.min_battles,
    )

    def words(name: str) -> dict[str, str]:
        if name not in files:
            return {}
        _check_size(folder / name, 16 * MOST_MANIFEST)
        return msgspec.json.decode((folder / name).read_bytes(), type=dict[str, str])

    texts, evidence = words(PROMPTS), WITNESS if manifest.source == "arena" else "battles.jsonl"
    if evidence not in files:
        raise TiltyardError(f"{evidence} is missing, from which everything follows.")
    if manifest.source == "arena":
        data = (folder / WITNESS).read_bytes()
        asked = [(name, texts[name], salt) for name, salt in words(SALTS).items() if name in texts]
        return witness_site(data, bounded_lines(folder / WITNESS), options, asked, words(NAMES))
    if manifest.source not in ("battles", "run", "placement"):
        raise TiltyardError(f"nothing is published from {manifest.source[:40]!r}.")
    _check_size(folder / evidence)
    return static_site(
        read_battles(folder / evidence),
        manifest.source,
        manifest.title,
        options,
        manifest.rules,
        texts,
        notes=manifest.notes,
        missing=manifest.missing,
    )


class _Comparison(msgspec.Struct):
    """Compares the files of a folder with those that are made again, one by one."""

    result: Finding
    folder: Path
    files: Collection[str]
    spare: Path
    site: StaticSite
    files_named: Collection[str]
    """The files that its manifest names."""
    ours: bool
    """Whether this very program wrote the folder, as it says."""

    def kept(self, name: str, content: bytes) -> bytes:
        """The bytes in the folder, where they are there; a difference is a problem, or not compared."""
        problems, not_compared = self.result.problems, self.result.not_compared
        boards = [one.file for one in self.site.boards]
        needed = self.ours or name in (PARQUET, MANIFEST, "battles.jsonl", *boards)
        if name not in self.files:
            problems += [f"{name} is missing"] if needed or name in self.files_named else []
            return content
        if (self.folder / name).stat().st_size > (2 if self.ours else 20) * len(content) + SLACK:
            problems.append(f"{name} is far longer than the file that these battles give")
            return content
        published = (self.folder / name).read_bytes()
        if name == MANIFEST:
            problems += self._manifest_problems(published, content)
        elif published == content or (name != PARQUET and is_same_text(published, content)):
            pass
        elif name in boards:
            problems += _board_problems(name, published, content)
            if self.ours:
                problems.append(difference(name, published, content, "battles"))
            else:
                not_compared.append(f"{name} but for ratings, ranges, places and counts of models")
        elif name.endswith(".png") and not published.startswith(PNG):
            problems.append(f"{name} is no picture")
        elif (
            not needed
            or (name == PARQUET and same_parquet(self.folder / name, self.spare / name))  # its statistics could lie
            or (name.endswith(".png") and not _is_drawn_alike(published, content))
        ):
            not_compared.append(name)
        else:
            problems.append(difference(name, published, content, "battles"))
        return published

    def _manifest_problems(self, published: bytes, content: bytes) -> Iterator[str]:
        """Where the manifest is not that of this folder."""
        stated, made = json.loads(published), json.loads(content)
        files, hashes = stated.pop("files"), made.pop("files")
        if not self.ours:  # other pages, which are not compared
            del stated["tiltyard_version"], stated["writer"], made["tiltyard_version"], made["writer"]
            files, hashes = ({name: one[name] for name in files.keys() & hashes} for one in (files, hashes))
        for name in sorted({*stated, *made}):
            one, other = (json.dumps({name: values.get(name)}, ensure_ascii=False) for values in (stated, made))
            if (name in stated) != (name in made) or not is_same_text(one.encode(), other.encode()):
                yield f"{MANIFEST}: it says {one[:LONGEST]}, and these battles give {other[:LONGEST]}"
        if self.result.problems:  # which changed the hashes
            return
        for name in sorted({*files, *hashes}):
            if files.get(name) != hashes.get(name):
                yield f"{MANIFEST} says of {name} what does not hold here, or does not name it"
        if self.ours and not is_same_text(published, content):
            yield difference(MANIFEST, published, content, "battles")


def difference(name: str, one: bytes, other: bytes, given: str) -> str:
    """In which line two files differ first."""
    pairs = enumerate(zip_longest(one.split(b"\n"), other.split(b"\n")), start=1)
    line = next(number for number, (a, b) in pairs if a != b)
    return f"{name} is not the file that these {given} give: line {line:,} differs"


def is_same_text(one: bytes, other: bytes) -> bool:
    """Whether two texts differ only in the last digits of numbers with decimals, as they do between processors."""
    if one == other:
        return True
    if DECIMAL.split(one) != DECIMAL.split(other):
        return False
    pairs = zip(DECIMAL.findall(one), DECIMAL.findall(other), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= AGREE * (1.0 + abs(float(b))) for a, b in pairs)


def _is_drawn_alike(published: bytes, content: bytes) -> bool:
    """Whether the libraries that drew a picture are those that are here, so that its bytes would be the same."""
    if not content:
        return False
    from tiltyard.render import drawn_with

    return drawn_with().encode() in published


def _board_problems(file: str, published: bytes, content: bytes) -> Iterator[str]:
    """Where a ratings file is not that of the battles."""
    try:
        stated, made = (RatingsFile.from_dict(json.loads(data)).ratings for data in (published, content))
    except (TiltyardError, ValueError, TypeError, RecursionError) as error:
        yield f"{file} is no ratings file ({error})"
        return
    if [entry.model for entry in stated] != [entry.model for entry in made]:
        yield f"{file}: these battles give other models, or another order"
        return
    for one, other in zip(stated, made, strict=True):
        for name in FIELDS:
            says, gives = (json.dumps({name: getattr(entry, name)}) for entry in (one, other))
            if not is_same_text(says.encode(), gives.encode()):
                yield f"{file}: {one.model}: it says {says}, and these battles give {gives}"


def check_run(folder: Path, besides: Collection[str] = ()) -> Finding:
    """Make the folder of a run or placement again from its verdicts, and compare every file but those `besides`."""
    result, (files, others) = Finding(), files_of(folder)
    manifest = read_object(require(folder / "manifest.json", folder))
    theirs, ours = (str(dict(one).get("tiltyard")) for one in (manifest.get("versions") or {}, versions()))
    kind = placement if manifest.get("kind") == "placement" else remaking
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        out = Path(spare) / folder.resolve().name
        try:
            for name, what in others.items():
                raise TiltyardError(f"{name} {what}")
            for name in files:
                _check_size(folder / name)
            if not re.fullmatch(r"[\w.+]{1,60}", theirs):
                raise TiltyardError(f"{theirs[:60]!a} is no version")
            made_again = kind.remake(folder, out)
            if "report.html" in files:
                write_report(out)
            for names in made_again.names:
                result.problems += look_alikes(sorted(names))
        except FAILURES as error:
            result.problems.append(f"it cannot be made again: {error}")
            return result
        result.not_compared = [*made_again.not_made]
        made, _ = files_of(out)
        for name in sorted(made):
            if name not in files:
                result.problems.append(f"{name} is missing")
                continue
            if (folder / name).stat().st_size > 2 * (out / name).stat().st_size + SLACK:
                result.problems.append(f"{name} is far longer than the file that these verdicts give")
                continue
            there, again = ((home / name).read_bytes() for home in (folder, out))
            version = f'"tiltyard_version": "{ours}"'.encode()
            there = there.replace(f'"tiltyard_version": "{theirs}"'.encode(), version)
            if is_same_text(there, again):
                continue
            if name.endswith(".npz") and _same_arrays(folder / name, out / name):
                packed_alike = there == (out / name).read_bytes()
                result.not_compared += [] if packed_alike else [f"{name} (packed by another program)"]
            elif theirs != ours and not name.startswith(RATED):
                result.not_compared.append(f"{name} (written by tiltyard {theirs}; this is {ours})")
            else:
                result.problems.append(difference(name, there, again, "verdicts"))
    result.problems += strangers(folder, made, besides)
    title = str(manifest.get("title", ""))
    if len(title) > LONGEST_WORDS or any(map(is_unseen, title)):
        result.problems.append(
            f"manifest.json: the title {title[:LONGEST]!a} is too long, or has letters that nobody sees"
        )
    words = [f"{name}: {_short(value)}" for name, value in manifest.items() if name not in kind.FOLLOWS]
    words += kind.OTHER_WORDS
    result.messages = ["of its maker, and not checked:", *(f"  {one}" for one in words)]
    result.values = {"verdicts": made_again.verdicts, "rules": made_again.rules, "not_checked": words}
    what = (
        "battles, ratings, counts and report" if "report.html" in files else "battles, ratings and counts (no report)"
    )
    part = f"Not compared: {', '.join(result.not_compared)}. " if result.not_compared else ""
    apart = ", but for what is not compared and what the report shows of it," if part else ""
    result.agreement = (
        f"{what}{apart} are what these {plural(made_again.verdicts, 'verdict')} give ({made_again.rules}). {part}"
        "Whoever made the folder could have changed verdicts, texts and people's battles."
    )
    return result


def _check_size(path: Path, most: int = MOST_MANIFEST) -> None:
    """Refuse a file that nobody can have written there: larger than any of its kind, or with a line that long."""
    if path.suffix == ".json" and path.stat().st_size > most:
        raise TiltyardError(f"{path.name} has {path.stat().st_size:,} bytes, more than any that is written there.")
    if path.suffix == ".jsonl":
        deque(bounded_lines(path), maxlen=0)


def _short(value: object) -> str:
    """A value of the manifest as its maker wrote it, or its beginning."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _same_arrays(one: Path, other: Path) -> bool:
    """Whether two files have the same arrays but for the last digits; the second one is then written from the first."""
    try:
        # NumPy itself leaves open what is cut off
        with one.open("rb") as file, np.load(file, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
            arrays, made, packed = dict(a), dict(b), b.zip.infolist()[0].compress_type != zipfile.ZIP_STORED
        shapes = ([(name, array.dtype, array.shape) for name, array in of.items()] for of in (arrays, made))
        if len({*map(str, shapes)}) > 1:
            return False
    except Exception:  # reading a header, NumPy raises whatever Python's own parser does
        return False
    for name, array in made.items():
        same = np.isclose(arrays[name], array, AGREE, AGREE) if array.dtype.kind == "f" else arrays[name] == array
        if not np.all(same):
            return False
    write_arrays(other, arrays, compressed=packed)
    return True
