"""Heads of an arena's log: a number and a hash that stand for everything up to that event, kept by anybody.

A head file says more: when, by which version, the board at that event, and the signature of the arena's operator. What
is signed is the text of `statement`, exactly as it is in the file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.errors import ArenaError, MissingExtra, OptionError

_WRITTEN = re.compile(r"\s*([0-9a-f]{64})@([0-9]{1,18})\s*\Z")
_PRINTED = re.compile(r"\s*(?:head:\s*)?([0-9]{1,18})\s+([0-9a-f]{64})\s*\Z")
KEY_PREFIX = "ed25519:"


@dataclass(frozen=True, order=True, slots=True)
class Head:
    """The hash of everything up to an event, and the event's number."""

    seq: int
    hash: str
    published: bool = field(default=True, compare=False)
    """Whether it is a head of the public log, in which every vote is final; `arena verify` prints the newest."""

    def __str__(self) -> str:
        return f"{self.hash}@{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """A head from its text: `HASH@SEQ` of a public log, or as `arena verify` and `arena backup` print it."""
        result = _WRITTEN.match(text)
        if result is not None:
            return cls(int(result[2]), result[1])
        result = _PRINTED.match(text)
        if result is not None:
            return cls(int(result[1]), result[2], published=False)
        raise OptionError(f"{text.strip()[:80]!r} is not a head. Write HASH@SEQ: 64 hex digits, @, and a number.")


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a head file states."""

    head: str
    """`HASH@SEQ`."""
    at: str
    """When, in UTC."""
    title: str = ""
    """What the arena is called."""
    board: tuple[tuple[str, float, float], ...] = ()
    """Every model in the order shown: its name, the rating shown and its deviation. In phase 1 there is no board."""
    ordered_by: str = ""
    """What the rating shown is: `conservative`, or `legacy_elo` in phase 2."""
    votes: int = 0
    """Counted votes."""
    version: str = ""
    """The version of the program."""
    state: str | msgspec.UnsetType = msgspec.UNSET
    """In a signed statement: the SHA-256 of the checkpoint that is kept there, from which `verify --since` begins."""


class HeadFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement, and the signature of its text."""

    statement: str
    """JSON of a `Statement`: the bytes that are signed."""
    key: str = ""
    """The public key: `ed25519:` and 44 letters of base64."""
    signature: str = ""
    """The signature in base64."""

    @property
    def stated(self) -> Statement:
        """What it states."""
        try:
            return msgspec.json.decode(self.statement, type=Statement)
        except msgspec.MsgspecError as error:
            raise ArenaError(f"a head file states something else than a head: {error}.") from None

    def check(self, keys: Iterable[str] = ()) -> None:
        """Check the signature, if there is one; with keys, there must be one by one of them."""
        trusted = list(keys)
        if not self.signature:
            if trusted:
                raise ArenaError("the head is not signed. Ask for a signed one, or leave out the key.")
            return
        if trusted and self.key not in trusted:
            raise ArenaError(f"the head is signed by {self.key}, which is not the key that was given.")
        if not _is_signed(self.key, self.signature, self.statement):
            raise ArenaError(f"the signature of the head is not by {self.key}: the file was changed, or is no head.")


def read_heads(path: Path) -> list[Head | HeadFile]:
    """The heads of a file: a head file, lines of head files, lines of `HASH@SEQ`, or what `verify` printed.

    Other lines of what a command printed are passed over; a file without any head is an error.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read heads from {path}: {error}. Check the path.") from None
    return parse_heads(text, str(path))


def parse_heads(text: str, source: str) -> list[Head | HeadFile]:
    """The heads in a text; `source` names it in errors."""
    result: list[Head | HeadFile] = []
    for line in text.splitlines() if not text.lstrip().startswith("{\n") else [text]:
        if line.lstrip().startswith("{"):
            try:
                result.append(msgspec.json.decode(line, type=HeadFile))
            except msgspec.MsgspecError as error:
                advice = "`tiltyard arena head --out` writes one"
                raise OptionError(f"{source}: not a head file ({error}): {advice}.") from None
        elif _WRITTEN.match(line) or _PRINTED.match(line):
            result.append(Head.parse(line))
    if not result:
        raise OptionError(f"{source} holds no head. Write one HASH@SEQ a line, or name a file of `arena head --out`.")
    return result


def plain(result: Iterable[Head | HeadFile], keys: Iterable[str] = ()) -> list[Head]:
    """The heads alone, after checking the signatures of those that have one."""
    trusted, heads = list(keys), list[Head]()
    for head in result:
        if isinstance(head, HeadFile):
            head.check(trusted)
            heads.append(Head.parse(head.stated.head))
        else:
            heads.append(head)
    return heads


def new_key() -> tuple[bytes, str]:
    """A new key: the private one as PEM, and the public one as text."""
    made = _cryptography().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), _public_text(made)


def signed(statement: Statement, pem: bytes | None = None) -> HeadFile:
    """The head file of a statement; with a private key (PEM), signed."""
    text = msgspec.json.encode(statement).decode()
    if pem is None:
        return HeadFile(statement=text)
    key = _private_key(pem)
    return HeadFile(statement=text, key=_public_text(key), signature=base64.b64encode(key.sign(text.encode())).decode())


def check_key(text: str) -> str:
    """A public key as it is written in head files; anything else is an error."""
    name = text.strip()
    try:
        raw = base64.b64decode(name.removeprefix(KEY_PREFIX), validate=True)
    except ValueError:
        raw = b""
    if not name.startswith(KEY_PREFIX) or len(raw) != 32:
        raise OptionError(
            f"{name[:80]!r} is not a public key. It looks like {KEY_PREFIX}MCowBQ…=, 44 letters of base64."
        )
    return name


def _private_key(pem: bytes) -> Any:
    kinds = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise OptionError("the key file holds no Ed25519 private key without a password. Make one with --new-key.")
    return key


def _public_text(private: Any) -> str:
    return KEY_PREFIX + base64.b64encode(private.public_key().public_bytes_raw()).decode()


def _is_signed(key: str, signature: str, text: str) -> bool:
    kinds = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        public = kinds.Ed25519PublicKey.from_public_bytes(base64.b64decode(check_key(key).removeprefix(KEY_PREFIX)))
        public.verify(base64.b64decode(signature, validate=True), text.encode())
    except (InvalidSignature, OptionError, ValueError):
        return False
    return True


def _cryptography() -> Any:
    """The kinds of keys."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("signed heads", "arena") from None
    return ed25519
