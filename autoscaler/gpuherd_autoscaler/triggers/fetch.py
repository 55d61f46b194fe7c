"""A bounded GET of JSON: no redirects, no compression, at most MAX_BYTES, numbers that are numbers."""

import json
from collections.abc import Mapping
from typing import Final

import aiohttp

from gpuherd.settings import Secret
from gpuherd_autoscaler.triggers.kinds import TriggerMissing

MAX_BYTES: Final = 1_048_576
_OK: Final = 200


class Fetcher:
    """One client session, made at the first call."""

    def __init__(self, token: Secret | None = None) -> None:
        self._headers = {} if token is None else {"Authorization": f"Bearer {token.text}"}
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, query: Mapping[str, str] | None = None) -> object:
        """Return the JSON value behind ``url``; raises TriggerMissing. The caller sets the deadline."""
        if self._session is None:
            # Without a limit of its own: a deadline that the caller sets covers all of it.
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.get(
                url, params=query, allow_redirects=False, headers={"Accept-Encoding": "identity"}
            ) as answer:
                text = await _bounded(answer)
                status = answer.status
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TriggerMissing(f"{type(error).__name__}: {error}"[:300]) from error
        if status != _OK:
            raise TriggerMissing(f"it answers with status {status}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TriggerMissing(f"its answer is no JSON: {error}"[:300]) from error

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    text = b""
    async for part in answer.content.iter_any():
        text += part
        if len(text) > MAX_BYTES:
            answer.close()
            raise TriggerMissing(f"its answer is longer than {MAX_BYTES} bytes")
    return text
