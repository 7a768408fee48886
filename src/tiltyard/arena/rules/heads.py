"""Heads of an arena: a hash that stands for its first public rows, and how many they are; kept by anybody.

A head file says more: when, by which version, the board there, and the signature of the arena's operator. What is
signed is the text of `statement`, exactly as it is in the file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tiltyard.errors import ArenaError, MissingExtra, OptionError

_WRITTEN = re.compile(r"\s*(?:head:\s*)?([0-9a-f]{64})@([0-9]{1,18})\s*\Z")
KEY_PREFIX = "ed25519:"


class Head(msgspec.Struct, frozen=True, order=True):
    """The hash of an arena's first public rows, and how many they are."""

    rows: int
    hash: str

    def __str__(self) -> str:
        return f"{self.hash}@{self.rows}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """A head from its text, `HASH@N`."""
        result = _WRITTEN.match(text)
        if result is None:
            raise OptionError(f"{text.strip()[:80]!r} is not a head. Write HASH@N: 64 hex digits, @, and a number.")
        return cls(int(result[2]), result[1])


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a head file states."""

    head: str
    """`HASH@N`."""
    at: str
    """When, in UTC."""
    title: str = ""
    """What the arena is called."""
    board: tuple[tuple[str, float, float], ...] = ()
    """Every model in the order shown: its name, the rating shown and its deviation. In phase 1 there is no board."""
    votes: int = 0
    """Counted votes."""
    version: Annotated[str, msgspec.Meta(max_length=60)] = ""
    """The version of the program."""
    weights: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """The SHA-256 of the weights that the votes have there, as the last line of a witness; empty if all weigh 1."""
    state: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | msgspec.UnsetType = msgspec.UNSET
    """In a signed statement: the SHA-256 of the checkpoint that is kept there, from which `verify --since` begins."""
    next_key: str | msgspec.UnsetType = msgspec.UNSET
    """The public key that signs later heads: whoever trusts this one may trust that one."""


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
            stated = msgspec.json.decode(self.statement, type=Statement)
            if msgspec.json.encode(stated).decode() != self.statement:
                raise ValueError("it is not written as tiltyard writes it: a key may be there twice")
            datetime.fromisoformat(stated.at)
            return stated
        except (msgspec.MsgspecError, ValueError) as error:
            raise ArenaError(f"a head file states something else than a head: {error}.") from None

    def wrong(self) -> str:
        """What is wrong with the signature; empty if it is good, or if there is none."""
        if not self.signature:
            return ""
        kinds = _cryptography()
        from cryptography.exceptions import InvalidSignature

        try:
            public = kinds.Ed25519PublicKey.from_public_bytes(_key_bytes(self.key))
            public.verify(base64.b64decode(self.signature, validate=True), self.statement.encode())
        except (InvalidSignature, ValueError):
            return f"the signature of the head is not by {self.key}: the file was changed, or is no head"
        return ""


def kept_heads(given: Iterable[str]) -> list[Head | HeadFile]:
    """The heads that somebody named: each `HASH@N`, or `@` and a file of heads."""
    result: list[Head | HeadFile] = []
    for text in given:
        result += parse_heads(read_named(text), text[1:]) if text.startswith("@") else [Head.parse(text)]
    if any(plain(head).rows == 0 for head in result):
        raise OptionError("a head of no rows says nothing: everything contains it. Name a head that you kept.")
    return result


def trusted_keys(given: Iterable[str]) -> list[str]:
    """The public keys that somebody named: each as it is, or `@` and a file with one a line."""
    keys: list[str] = []
    for text in given:
        lines = (read_named(text) if text.startswith("@") else text).split("\n")
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise OptionError(f"{text or 'an empty text'} holds no key. Name a public key, or leave the option out.")
        for key in found:
            try:
                _key_bytes(key)
            except ValueError:
                example = f"It looks like {KEY_PREFIX}MCowBQ…=, 44 letters of base64"
                raise OptionError(f"{key[:80]!r} is not a public key. {example}.") from None
        keys += found
    return keys


def with_successors(keys: Iterable[str], heads: Iterable[HeadFile]) -> list[str]:
    """These keys, and those that their heads name as the next, one after the other."""
    result = list(keys)
    for file in sorted(heads, key=lambda file: (plain(file).rows, file.stated.at)):
        named = file.stated.next_key
        if named and file.signature and file.key in result and not file.wrong():
            result.append(named)
    return result


def signed_after_the_next(heads: Iterable[HeadFile]) -> Iterator[str]:
    """The keys that signed something after a head in which they named the next key, or named two, a sentence each."""
    named: dict[str, str] = {}
    for file in sorted(heads, key=lambda file: (plain(file).rows, file.stated.at)):
        if file.key in named:
            yield (
                f"{file.key} signed the head {plain(file)} after it had named {named[file.key]} as the next key: ask "
                "the operator why, it may be in other hands"
            )
        elif file.signature and file.stated.next_key:
            named[file.key] = file.stated.next_key


def read_named(name: str) -> str:
    """The text of the file that `@file` names."""
    try:
        return Path(name[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {name[1:]}: {error}. Name a text file in UTF-8.") from None


def parse_heads(text: str, source: str) -> list[Head | HeadFile]:
    """The heads in a text, head files or lines of `HASH@N`, among other lines; `source` names it in errors."""
    result: list[Head | HeadFile] = []
    for line in text.splitlines() if not text.lstrip().startswith("{\n") else [text]:
        try:
            if line.lstrip().startswith("{"):
                result.append(msgspec.json.decode(line, type=HeadFile))
            elif _WRITTEN.match(line):
                result.append(Head.parse(line))
        except msgspec.MsgspecError as error:
            raise OptionError(f"{source}: not a head file ({error}): `arena head --out` writes one.") from None
    if not result:
        raise OptionError(f"{source} holds no head. Write one HASH@N a line, or name a file of `arena head --out`.")
    return result


def plain(head: Head | HeadFile) -> Head:
    """The head alone."""
    return Head.parse(head.stated.head) if isinstance(head, HeadFile) else head


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
    kinds = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise OptionError("the key file holds no Ed25519 private key without a password. Make one with --new-key.")
    return HeadFile(statement=text, key=_public_text(key), signature=base64.b64encode(key.sign(text.encode())).decode())


def _key_bytes(key: str) -> bytes:
    """The bytes of a public key as head files have it; a ValueError if it is none."""
    raw = base64.b64decode(key.removeprefix(KEY_PREFIX), validate=True)
    if not key.startswith(KEY_PREFIX) or len(raw) != 32:
        raise ValueError(key)
    return raw


def _public_text(private: Any) -> str:
    return KEY_PREFIX + base64.b64encode(private.public_key().public_bytes_raw()).decode()


def _cryptography() -> Any:
    """The kinds of keys."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("signed heads", "arena") from None
    return ed25519
