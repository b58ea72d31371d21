"""What an id on the command line means: a job or an array, by all of its id or a beginning that no other has.

Asks the queue through the SDK.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupool.findings import UsageError

if TYPE_CHECKING:
    from gpupool.client import Client, Job

SHORTEST = 8
"""Characters of a beginning."""


@dataclass(frozen=True, slots=True)
class Named:
    """A job or an array."""

    id: str
    is_array: bool


def named(client: Client, text: str) -> Named:
    """The only job or array whose id begins so. Raises UsageError where there is none, or several."""
    from gpupool.client import Invalid
    from gpupool.client.errors import shown

    unknown = f"there is no job {shown(text)}"
    if len(text) < SHORTEST:
        raise UsageError(f"{unknown}; give its id, or the first {SHORTEST} characters or more")
    try:
        ids = client.find(text)
    except Invalid:
        raise UsageError(f"{unknown}; ids are as `gpupool jobs list` shows them") from None
    several = [*(Named(id, False) for id in ids.jobs), *(Named(id, True) for id in ids.arrays)]
    if not several:
        raise UsageError(f"{unknown}, and no array; `gpupool jobs list` shows those that there are")
    if len(several) > 1:
        listed = "".join(f"\n  {'array' if one.is_array else 'job'} {one.id}" for one in several)
        others = "\n  and others" if ids.more else ""
        raise UsageError(
            f"ids of several begin with {text}; give more of the one that is meant:{listed}{others}"
        )
    return several[0]


def whole(client: Client, texts: Iterable[str]) -> list[str]:
    """The ids that these begin."""
    return [named(client, text).id for text in texts]


def jobs_of(client: Client, what: Named) -> list[Job]:
    """The job, or all jobs of the array by their index."""
    if not what.is_array:
        return [client.job(what.id)]
    return sorted(client.jobs(group=what.id, page_size=200), key=lambda job: job.group_index or 0)
