"""Rights, and the bearer tokens that grant them. The store of the lessons keeps digests of the tokens."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Final, Literal, TypeAlias

import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, ReflexionError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.records import checked
from jeeves_reflexion.lessons.repository import store_errors
from vectorstores.base import JSON, Record, RecordStore, VectorStore

Right: TypeAlias = Literal["read", "propose", "review"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "propose", "review")
"""``read``: recall, search, explain; ``propose``: write proposed lessons, report scores; ``review``: decide."""
NAMESPACE: Final = ".tokens"
"""The namespace that holds the tokens of an address; no token opens it."""
_COLLECTION: Final = "tokens"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PREFIX: Final = "jr_"

_Names = Annotated[tuple[str, ...], pydantic.Strict(strict=False)]
_Rights = Annotated[tuple[Right, ...], pydantic.Strict(strict=False)]


class RightError(ReflexionError):
    """A client lacks the right or the namespace that the message names."""


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(strict=True))
class Caller:
    """A client: its name for histories, its namespaces (the first is the default), and its rights.

    One with a token is stored, with the time in seconds since 1970 and a digest of the token's secret.
    """

    name: str
    namespaces: _Names
    rights: _Rights
    created_at: float = 0.0
    digest: str = field(default="", repr=False)

    def namespace(self, right: Right, wanted: str | None) -> str:
        """Return the namespace of a call; raises :class:`RightError` if the client lacks the right or namespace."""
        if right not in self.rights:
            held = ", ".join(each for each in RIGHTS if each in self.rights) or "none"
            raise RightError(f"{self.name!r} may not {right}: its rights are {held}")
        if wanted is not None and wanted not in self.namespaces:
            raise RightError(
                f"{self.name!r} may not use the namespace {wanted!r:.80}: its own are "
                f"{', '.join(map(repr, self.namespaces))}"
            )
        return self.namespaces[0] if wanted is None else wanted


class Tokens:
    """The tokens of an address; ``store`` is any view of it. Raises :class:`LessonStoreError` if the store fails."""

    def __init__(self, store: VectorStore) -> None:
        records = store.scoped(NAMESPACE)
        if not isinstance(records, RecordStore):
            raise ConfigurationError(f"{type(store).__name__} can't keep tokens: it is not a RecordStore")
        self._records = records

    async def make(self, name: str, namespaces: Sequence[str], rights: Sequence[Right]) -> str:
        """Make a token for the client ``name`` and return it. It can't be read again.

        Raises :class:`ConfigurationError` for an invalid or taken name, and without a namespace or right.
        """
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"a token's name is at most 40 letters, digits, - and _, not {name!r:.80}"
            )
        if not namespaces or NAMESPACE in namespaces:
            raise ConfigurationError(f"a token needs at least one namespace, other than {NAMESPACE!r}")
        for each in namespaces:
            if not each.strip() or not each.isprintable():
                raise ConfigurationError(
                    f"a namespace is a name, not empty and without control characters, not {each!r:.80}"
                )
        if not rights or not set(rights) <= set(RIGHTS):
            raise ConfigurationError(f"a token needs at least one right of {', '.join(RIGHTS)}")
        secret = secrets.token_urlsafe(32)
        value: dict[str, JSON] = {
            "name": name,
            "namespaces": list(dict.fromkeys(namespaces)),
            "rights": [each for each in RIGHTS if each in rights],
            "created_at": time.time(),
            "digest": _digest(secret),
        }
        async with store_errors("make a token"):
            if not await self._records.append_once(_COLLECTION, name, value):
                raise ConfigurationError(
                    f"there is a token {name!r} already: revoke it, or choose another name"
                )
        return f"{_PREFIX}{name}.{secret}"

    async def all(self) -> list[Caller]:
        """Return the clients of all tokens, oldest first."""
        async with store_errors("list the tokens"):
            return [_read(record) async for record in each_record(self._records, _COLLECTION)]

    async def revoke(self, name: str) -> bool:
        """Refuse a token from the next call on. Returns False if it does not exist."""
        async with store_errors("revoke a token"):
            return await self._records.delete_records(_COLLECTION, [name]) > 0

    async def caller(self, token: str) -> Caller | None:
        """Return the client of a token; None if the token is not valid."""
        name, _, secret = token.removeprefix(_PREFIX).partition(".")
        if not token.startswith(_PREFIX) or not _NAME.fullmatch(name):
            return None
        async with store_errors("look a token up"):
            record = await self._records.get(_COLLECTION, name)
        if record is None:
            return None
        known = _read(record)
        return known if hmac.compare_digest(known.digest, _digest(secret)) else None


def _digest(secret: str) -> str:
    # A random secret of 256 bits needs no slow digest.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(record: Record) -> Caller:
    try:
        return checked(Caller, record.value)
    except ConfigurationError as error:
        raise LessonStoreError(f"the token {record.key!r} can't be read: {error}") from error
