"""Embeddings from a service with OpenAI's ``/embeddings`` API: OpenAI, vLLM, Ollama, llama.cpp and others."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import numpy as np

from vectorstores._checks import unit_vector
from vectorstores.base import EmbeddingError, InvalidChunkError
from vectorstores.embedders import check_texts, in_parts
from vectorstores.header_secrets import check_headers
from vectorstores.json_http import JsonService, Timeouts, Waits
from vectorstores.service_address import address_and_key, address_of, key_headers
from vectorstores.service_answers import RequestError

if TYPE_CHECKING:
    from vectorstores.base import JSON, FloatArray

_log: Final = logging.getLogger(__name__)
_OPENAI: Final = "https://api.openai.com/v1"
# The most characters in one request, unless a single text is longer: services also limit the tokens of a request.
_MOST_CHARACTERS: Final = 200_000
# No model refuses a text of so few characters as too long.
_SHORT: Final = 64
_TOO_LARGE: Final = frozenset({400, 413, 422})


class _TooLargeError(EmbeddingError):
    """A refusal that shorter or fewer texts may avoid."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How requests to a service are made.

    ``send_dimensions`` asks for vectors of the embedder's ``dim``, from models that can shorten theirs.
    ``batch_size`` is the most texts in a request, ``concurrency`` the most requests at a time. A request may take
    ``timeout`` seconds, and connecting ``connect_timeout``; after 408, 409, 429, 5xx and broken connections it is
    retried up to ``retries`` times, with waits of up to ``longest_wait`` seconds.
    """

    send_dimensions: bool = False
    batch_size: int = 64
    concurrency: int = 8
    timeout: float = 60.0
    connect_timeout: float = 10.0
    retries: int = 4
    longest_wait: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("concurrency", 1), ("retries", 0), ("longest_wait", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        check_headers(self.headers)
        for name in ("timeout", "connect_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 seconds, not {getattr(self, name)}")


class HttpEmbedder:
    """Unit vectors from the model of a service with OpenAI's ``POST {base_url}/embeddings``.

    ``dim`` is the length of the model's vectors; a reply with another length is an error. ``base_url`` defaults to
    ``OPENAI_BASE_URL``, else to OpenAI's own, and ``api_key`` to ``OPENAI_API_KEY``; both are read at construction. A
    service on this machine needs no key; ``""`` sends none. ``revision`` tells apart models that change under one name:
    like ``model`` and ``dim``, and unlike the address, it is part of ``id``. If the service refuses a text as too long
    (400, 413 or 422), the longest prefix of 2^n characters that it accepts is embedded, with one warning in the log.

    Close it, or use ``async with``; otherwise connections are closed when the event loop ends. Raises ``ValueError``
    for a bad address or setting, or if a key is needed and missing.
    """

    def __init__(
        self,
        model: str,
        *,
        dim: int,
        base_url: str | None = None,
        api_key: str | None = None,
        revision: str | None = None,
        options: HttpOptions | None = None,
    ) -> None:
        if not model.strip():
            raise ValueError("HttpEmbedder needs the name of a model, such as text-embedding-3-small")
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        self._options = options or HttpOptions()
        address = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        base, key = address_and_key(address, api_key, "OPENAI_API_KEY", self._options.headers)
        self._model = model
        self._dim = dim
        self._revision = revision
        self._base = str(base).rstrip("/")
        self._url = address_of(base, "/embeddings", model)
        self._warned = False
        self._service = JsonService(
            self._url,
            key_headers(base, key, self._options.headers),
            timeouts=Timeouts(self._options.timeout, self._options.connect_timeout),
            waits=Waits(self._options.retries, longest=self._options.longest_wait),
            concurrency=self._options.concurrency,
        )

    @classmethod
    def at(cls, address: str) -> Self:
        """Return the embedder of ``https://HOST/v1?model=NAME&dim=1536``.

        The query may also name ``revision``, Azure's ``api-version``, and ``api-key-env``, the environment variable
        with the key (by default ``OPENAI_API_KEY``). Raises ``ValueError`` for anything else.
        """
        try:
            url = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise ValueError(f"this can't be read as an address: {error}") from error
        query = dict(url.params)
        names = ("model", "dim", "revision", "api-key-env")
        model, dim, revision, variable = (query.pop(name, None) for name in names)
        if not model or not (dim or "").isdecimal():
            raise ValueError(
                "an embedder's address names its model and dimension: https://HOST/v1?model=NAME&dim=1536"
            )
        key = os.environ.get(variable, "").strip() if variable else None
        if key == "":
            raise ValueError(f"no key: the environment variable {variable} is not set, or empty")
        base = str(url.copy_with(params=query) if query else url.copy_with(query=None))
        return cls(model, dim=int(dim or 0), base_url=base, api_key=key, revision=revision)

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._model!r}, dim={self._dim}, base_url={self._base!r})"

    @property
    def id(self) -> str:
        """Digest of the model's name, the dimension and the revision. The address does not matter."""
        parts = json.dumps([self._model, self._dim, self._revision])
        return f"http-{hashlib.sha256(parts.encode()).hexdigest()[:32]}"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones."""
        await self._service.aclose()

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)`` with rows of unit length, in the order of the texts.

        Services refuse an empty text, so it is sent as a space. Raises :class:`~vectorstores.EmbeddingError`
        if the service can't be reached, refuses, or does not answer with an embedding of each text.
        """
        checked = check_texts(texts)
        await anyio.lowlevel.checkpoint()
        # The texts of each request, with the index of the first.
        parts: list[tuple[int, list[str]]] = []
        size = 0
        for index, text in enumerate(checked):
            full = bool(parts) and len(parts[-1][1]) == self._options.batch_size
            if not parts or full or size + len(text) > _MOST_CHARACTERS:
                parts.append((index, []))
                size = 0
            parts[-1][1].append(text)
            size += len(text)
        vectors = await in_parts(parts, lambda part: self._fitting(*part), self._options.concurrency)
        return np.concatenate([np.empty((0, self._dim), dtype=np.float32), *vectors])

    async def _fitting(self, start: int, texts: Sequence[str]) -> FloatArray:
        """Request vectors, in halves if the texts together are too large, and of a prefix if a single text is.

        ``start`` is the index of the first text among the caller's. The prefix is the longest that the service accepts
        whose length is a power of two: it depends on no other text, so that every process gets the same vector.
        """
        try:
            return await self._ask(start, texts)
        except _TooLargeError as error:
            refusal = error
        if len(texts) > 1:
            half = len(texts) // 2
            parts = ((start, texts[:half]), (start + half, texts[half:]))
            return np.concatenate([await self._fitting(*part) for part in parts])
        size = len(texts[0])
        while size > _SHORT:
            size = 1 << ((size - 1).bit_length() - 1)
            try:
                row = await self._ask(start, [texts[0][:size]])
            except _TooLargeError:
                continue
            if not self._warned:
                self._warned = True
                # Without the service's message, which may quote the text.
                _log.warning(
                    "%s refused a text of %d characters, so only its first %d were embedded; this goes for all texts"
                    " that are too long for %s",
                    self._url,
                    len(texts[0]),
                    size,
                    self._model,
                )
            return row
        raise refusal  # for another reason: a short text is refused too

    async def _ask(self, start: int, texts: Sequence[str]) -> FloatArray:
        body: dict[str, JSON] = {
            "model": self._model,
            "input": [text or " " for text in texts],
            "encoding_format": "float",
        }
        if self._options.send_dimensions:
            body["dimensions"] = self._dim
        try:
            answer = await self._service.post(body)
        except RequestError as error:
            said = str(error)
            if error.status in {401, 403}:
                hint = "check OPENAI_API_KEY, or the api_key you passed"
                said = f"{self._url} refused the key ({error.status}): {hint}. It said: {error.said}"
            raise (_TooLargeError if error.status in _TOO_LARGE else EmbeddingError)(said) from None
        return await anyio.to_thread.run_sync(self._vectors, answer, start, len(texts))

    def _vectors(self, answer: Mapping[str, JSON], start: int, expected: int) -> FloatArray:
        """Return the embeddings of an answer in the order of the texts, or raise :class:`EmbeddingError`."""
        data = answer.get("data")
        items = data if isinstance(data, list) else []
        found: dict[str, JSON] = {}
        for number, item in enumerate(items):
            if isinstance(item, dict) and "embedding" in item:
                found[str(item.get("index", number))] = item["embedding"]
        wanted = list(map(str, range(expected)))
        if len(items) != expected or found.keys() != set(wanted):
            said = self._service.shown(json.dumps(answer, ensure_ascii=False))
            raise EmbeddingError(
                f"{self._url} answered without one embedding for each of {expected} texts: {said}"
            )
        vectors = np.empty((expected, self._dim), dtype=np.float32)
        for number, index in enumerate(wanted):
            place = f"{self._url}, the embedding of texts[{start + number}]"
            try:
                vectors[number] = unit_vector(found[index], self._dim, place)
            except InvalidChunkError as error:
                raise EmbeddingError(str(error)) from error
        return vectors
