"""Makes and reads the opaque addresses of answers that are files."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Literal

from tiltyard.data.bank import AnswerKind
from tiltyard.site.visitors import derived_key

MAC_BYTES = 24
PUBLIC, OPERATOR = "P", "O"
TOKEN = re.compile(r"[A-Za-z0-9_-]{40,320}\Z")


class AnswerLinks:
    """Makes and reads the addresses of answers."""

    def __init__(self, secret: str, answers_host: str = "") -> None:
        self._origin = f"//{answers_host}" if answers_host else ""
        self._key = derived_key(secret, "shown answer")
        self._mask_key = derived_key(secret, "shown answer's mask")

    def url(self, matchup_id: str, side: Literal["A", "B"], kind: str) -> str:
        """The address of one answer of a matchup."""
        return self._url(f"{side}{matchup_id}", kind)

    def public_url(self, response_id: str, kind: str) -> str:
        """The address of an answer that is public with its author, because its prompt is retired."""
        return self._url(f"{PUBLIC}{response_id}", kind)

    def operator_url(self, response_id: str, kind: str) -> str:
        """The address of an answer on the administrator's pages, which show what is switched off, too."""
        return self._url(f"{OPERATOR}{response_id}", kind)

    def read(self, token: str) -> tuple[str, str] | None:
        """The matchup and the side that a token stands for, or an answer and for whom; None if it is not ours."""
        if not TOKEN.match(token):
            return None
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        mac, named = raw[:MAC_BYTES], self._masked(raw[:MAC_BYTES], raw[MAC_BYTES:])
        if not hmac.compare_digest(mac, self._mac(named)) or _letters(raw) != token:
            return None
        return named[1:].decode(), named[:1].decode()

    def _url(self, named: str, kind: str) -> str:
        mac = self._mac(named.encode())
        origin = self._origin if kind == AnswerKind.HTML else ""
        return f"{origin}/shown/{_letters(mac + self._masked(mac, named.encode()))}"

    def _mac(self, named: bytes) -> bytes:
        return hmac.digest(self._key, named, "sha256")[:MAC_BYTES]

    def _masked(self, mac: bytes, named: bytes) -> bytes:
        """The name made unreadable, or readable again: a page reads its own address, which must not tell its side."""
        mask = hashlib.shake_256(self._mask_key + mac).digest(len(named))
        return bytes(letter ^ over for letter, over in zip(named, mask, strict=True))


def _letters(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
