"""Questions to the Prometheus that the environment file names.

What it does not say for sure is not known: an answer with a warning is none.
"""

from __future__ import annotations

from typing import Any, Literal

import aiohttp

SECONDS = 10.0
"""Prometheus has so long to answer, unless who asks says otherwise."""

Series = dict[str, Any]
"""`metric` with its labels, and `value` or `values`."""


class NotKnown(Exception):
    """Prometheus does not say."""


async def ask(
    url: str, kind: Literal["query", "query_range"], patience_s: float | None = None, /, **values: str
) -> list[Series]:
    """The series that answer a question of Prometheus' HTTP API, within `patience_s`. Raises NotKnown."""
    seconds = SECONDS if patience_s is None else patience_s
    address = f"{url.rstrip('/')}/api/v1/{kind}"
    try:
        timeout = aiohttp.ClientTimeout(seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(address, data={**values, "timeout": f"{seconds:g}s"}) as answer,
        ):
            body = await answer.json(content_type=None)
    except TimeoutError:
        raise NotKnown(f"{url} has not answered within {seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NotKnown(f"{url} can't be asked: {str(error) or type(error).__name__}") from None
    if not isinstance(body, dict) or body.get("status") != "success":
        reason = body.get("error") if isinstance(body, dict) else None
        raise NotKnown(f"{url} answered {answer.status}: {reason or 'not what Prometheus answers'}")
    if body.get("warnings"):  # parts of what is asked for may be missing
        raise NotKnown(f"{url} is not sure: {'; '.join(body['warnings'])}")
    series: list[Series] = body["data"]["result"]
    return series
