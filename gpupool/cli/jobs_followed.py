"""Following a job until it has ended: what happens to it, what it waits for, what it prints.

It asks the queue through the SDK, again and again with growing pauses, and decides nothing.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from gpupool.findings import GpupoolError

if TYPE_CHECKING:
    from gpupool.client import Client, Event, Job

SOON_S = 2.0
"""A job that starts sooner is not said to wait."""


def events(client: Client, id: str) -> Iterator[Event]:
    """Everything that happens to the job."""
    from gpupool.client.sending import wait_pauses

    seen = 0
    for pause in wait_pauses():
        ended = client.job(id).ended  # read before the events: what it ended with is then among them
        for event in client.history(id)[seen:]:
            seen += 1
            yield event
        if ended:
            return
        time.sleep(pause)


def all_ended(client: Client, submitted: Job, limit_s: float | None = None) -> list[Job]:
    """The jobs of a submission when they have ended. Interrupted, it says how to go on, as the jobs do.
    Raises GpupoolError after `limit_s`."""
    ids = submitted.job_ids or (submitted.id,)
    until = None if limit_s is None else time.monotonic() + limit_s
    try:
        return [_until(client, id, lambda job: job.ended, until) for id in ids]
    except KeyboardInterrupt:
        if len(ids) == 1:
            which, show, cancel = f"job {ids[0]} continues", f"show {ids[0]}", f"cancel {ids[0]}"
        else:
            which = "the jobs that have not ended continue"
            show, cancel = f"list --group {submitted.group_id}", "cancel JOB..."
        said = f"{which}; look with `gpupool jobs {show}`, cancel with `gpupool jobs {cancel}`"
        print(said, file=sys.stderr, flush=True)
        raise


def begun(client: Client, id: str) -> None:
    """Returns when the job runs, has ended or has printed anything."""

    def reached(job: Job) -> bool:
        return job.ended or job.state == "running" or next(client.logs(id), None) is not None

    _until(client, id, reached)


def _until(client: Client, id: str, reached: Callable[[Job], bool], until: float | None = None) -> Job:
    """The job when it is so. What it waits for goes to stderr whenever that changes. Raises GpupoolError
    `until` that moment of time.monotonic() it is not."""
    from gpupool.client.sending import wait_pauses

    began, said = time.monotonic(), ""
    for pause in wait_pauses():
        job = client.job(id)
        if reached(job):
            return job
        waiting = f"{job.waiting.reason}: {job.waiting.detail}" if job.waiting else ""
        words = re.sub("[0-9]+", "", waiting)  # numbers change all the time
        if words != said and time.monotonic() - began > SOON_S:
            said = words
            if waiting:
                print(f"{id}  {waiting}", file=sys.stderr, flush=True)
        if until is not None and time.monotonic() > until:
            raise GpupoolError(
                f"job {id} is still {job.state}; it waits for {waiting or 'nothing'}; it goes on"
            )
        time.sleep(pause)
    raise AssertionError("unreachable")


def output(client: Client, id: str, follow: bool, only: int | None = None) -> Iterator[str]:
    """A job's output, of one attempt or all. Where it has several, stderr says which one follows."""
    if only:
        yield from client.logs(id, follow, only)
        return
    job = client.job(id)
    for attempt in count(1):
        if job.attempt > 1:
            sys.stdout.flush()  # both may go to one place
            print(f"--- attempt {attempt}", file=sys.stderr, flush=True)
        yield from client.logs(id, follow, attempt)
        if follow:
            job = client.job(id)
        if attempt >= job.attempt:
            return
