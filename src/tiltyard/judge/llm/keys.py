"""Keys of providers: found in the environment or a `.env` file, and kept out of everything that is written."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from tiltyard.errors import OptionError, Refused

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HIDDEN = "[hidden]"
_SHORTEST_SECRET = 8
"""A shorter value (`none`, `local`) is a placeholder; hiding it would only blank ordinary words."""

_known: set[str] = set()


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a `.env` file: `KEY=VALUE` lines, with quotes, comments and `export` understood."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read as a .env file ({type(error).__name__}).") from None
    matches = (_LINE.match(line) for line in text.splitlines() if not line.lstrip().startswith("#"))
    return {match[1]: _plain(match[2]) for match in matches if match}


def _plain(value: str) -> str:
    quoted = re.match(r"""(["'])(.*?)\1\s*(?:#.*)?$""", value)
    return quoted[2] if quoted else re.sub(r"(^|\s+)#.*$", "", value).strip()


def load_env(folders: Iterable[Path], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables to look keys up in: the environment first, then the `.env` of each folder, in order."""
    variables = {name: value for name, value in (os.environ if environ is None else environ).items() if value.strip()}
    for folder in folders:
        path = folder / ".env"
        if path.is_file():
            variables = read_env_file(path) | variables
    for name, value in variables.items():
        if name.upper().endswith("_API_KEY"):
            keep_secret(value)
    return variables


def find_key(variable: str, env: Mapping[str, str], *, needed_for: str) -> str:
    """The key in `variable`; `Refused`, in one line that says where to put it, when there is none."""
    key = env.get(variable, "").strip()
    if not key:
        raise Refused(f"{needed_for} needs a key: set {variable} in the environment or in .env.")
    keep_secret(key)
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise Refused(f"{variable} holds characters that no key has. Copy the key again into the environment or .env.")
    return key


def fill_in_headers(headers: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Headers with each `${NAME}` in a value replaced by that variable; every value is a secret from now on."""
    filled = {}
    for header, value in headers.items():
        for name in _VARIABLE.findall(value):
            if not env.get(name, "").strip():
                raise Refused(f"the header {header} names ${{{name}}}: set {name} in the environment or in .env.")
            keep_secret(env[name])
        whole = _VARIABLE.sub(lambda match: env[match[1]].strip(), value)
        keep_secret(whole)
        if not (whole.isascii() and whole.isprintable()):
            raise Refused(f"the header {header} holds characters that no header has. Check its value.")
        filled[header] = whole
    return filled


def keep_secret(value: str | None) -> None:
    """From now on `redact` removes this value."""
    if value and len(value.strip()) >= _SHORTEST_SECRET:
        _known.add(value.strip())


def redact(text: str) -> str:
    """The text without any secret: what providers were given, and the value of every `*_API_KEY` variable."""
    from_environment = {value.strip() for name, value in os.environ.items() if name.upper().endswith("_API_KEY")}
    secrets = _known | {value for value in from_environment if len(value) >= _SHORTEST_SECRET}
    for written in sorted({way for secret in secrets for way in _ways_to_write(secret)}, key=len, reverse=True):
        text = text.replace(written, _HIDDEN)
    return text


def _ways_to_write(secret: str) -> Iterator[str]:
    """A secret as servers repeat it: as it is, without `Bearer`, and as a part of JSON, HTML or an address."""
    for part in {secret, secret.rpartition(" ")[2]}:
        if len(part) >= _SHORTEST_SECRET:
            quoted = json.dumps(part)[1:-1]
            yield from (part, quoted, quoted.replace("/", "\\/"), html.escape(part), quote(part, safe=""))
