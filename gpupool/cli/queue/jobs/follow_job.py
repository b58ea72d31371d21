"""Follow a job until it has ended: its events, why it waits, its output.

It asks the queue through the SDK, again and again with growing pauses, and decides nothing.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING

from gpupool.cli.queue.jobs.connection import lasting
from gpupool.cli.queue.jobs.ids import Named, jobs_of
from gpupool.findings import GpupoolError, NoAnswer

if TYPE_CHECKING:
    from gpupool.client import Client, Event, Job

SOON_S = 2.0
"""Seconds before the first reason is printed: most jobs start sooner."""


def events(client: Client, what: Named) -> Iterator[Event]:
    """Everything that happens to the job, or to the jobs of the array."""
    from gpupool.client.sending import wait_pauses

    seen: dict[str, int] = {}
    versions: dict[str, int] = {}
    jobs_of(client, what)
    client = client.waiting()
    with lasting():
        for pause in wait_pauses():
            # Read before the events: what a job ended with is then among them.
            jobs = jobs_of(client, what)
            changed = [job for job in jobs if versions.get(job.id) != job.version or not what.is_array]
            news: list[tuple[float, Event]] = []
            for job in changed:
                at = 0.0  # some times are in whole seconds: what comes later in a job is later
                for event in client.history(job.id)[seen.get(job.id, 0) :]:
                    at = max(at, event.time.timestamp() if event.time else 0.0)
                    news.append((at, event))
            for _, event in sorted(news, key=lambda row: row[0]):
                seen[event.job] = seen.get(event.job, 0) + 1
                yield event
            versions |= {job.id: job.version for job in changed}
            if all(job.ended for job in jobs):
                return
            time.sleep(pause)


def submit_with_key(send: Callable[[str], Job], key: str | None, question: Callable[[str], str]) -> Job:
    """Submit by `send` under `key`, or a new one; the job. If it is interrupted before there is an answer, it
    prints `question` of the key: how to ask what became of it."""
    key = key or str(uuid.uuid4())
    try:
        return send(key)
    except KeyboardInterrupt:
        print(question(key), file=sys.stderr, flush=True)
        raise


def wait_until_all_ended(client: Client, submitted: Job, limit_s: float | None = None) -> list[Job]:
    """Wait until the jobs of a submission have ended, and return them. If it is interrupted before, it prints
    how to go on, as the jobs do. Raises GpupoolError after `limit_s`."""
    from gpupool.client import LostContact

    ids = submitted.job_ids or (submitted.id,)
    until = None if limit_s is None else time.monotonic() + limit_s
    try:
        with lasting():
            return [_wait_until(client.waiting(), id, lambda job: job.ended, until) for id in ids]
    except (KeyboardInterrupt, NoAnswer, LostContact):
        if len(ids) == 1:
            which, show, cancel = f"job {ids[0]} continues", f"show {ids[0]}", f"cancel {ids[0]}"
        else:
            which = "the jobs that have not ended continue"
            show, cancel = f"show {submitted.group_id}", f"cancel {submitted.group_id}"
        said = f"{which}; look with `gpupool jobs {show}`, cancel with `gpupool jobs {cancel}`"
        print(said, file=sys.stderr, flush=True)
        raise


def wait_until_begun(client: Client, id: str) -> None:
    """Wait until the job runs, has ended or has printed anything."""

    def reached(job: Job) -> bool:
        return job.ended or job.state == "running" or next(client.logs(id), None) is not None

    client.job(id)
    client = client.waiting()
    with lasting():
        _wait_until(client, id, reached)


def _wait_until(client: Client, id: str, reached: Callable[[Job], bool], until: float | None = None) -> Job:
    """Wait until `reached`, and return the job. Prints why it waits to stderr whenever the reason changes.
    Raises GpupoolError at `until`, a time of time.monotonic()."""
    from gpupool.client.sending import wait_pauses

    began = time.monotonic()
    said: str | None = None
    for pause in wait_pauses():
        job = client.job(id)
        if reached(job):
            return job
        waiting = f"{job.waiting.reason}: {job.waiting.detail}" if job.waiting else ""
        if job.waiting and job.waiting.reason != said and time.monotonic() - began > SOON_S:
            said = job.waiting.reason
            print(f"{id}  {waiting}", file=sys.stderr, flush=True)
        if until is not None and time.monotonic() > until:
            raise GpupoolError(
                f"job {id} is still {job.state}{f' ({waiting})' if waiting else ''}; it continues"
            )
        time.sleep(pause)
    raise AssertionError("unreachable")


def output(
    client: Client,
    what: Named,
    follow: bool,
    attempt: int | None = None,
    tail: int | None = None,
    since: int | None = None,
) -> Iterator[str]:
    """The output of a job, of one attempt or all, or of the jobs of an array, one after the other. Where it
    has several, stderr names the one that follows."""
    jobs = jobs_of(client, what)
    client = client.waiting() if follow else client
    with lasting() if follow else nullcontext():
        for job in jobs:
            if what.is_array:
                _print_separator(f"job {job.id}, index {job.group_index}")
            if follow:
                wait_until_begun(client, job.id)
            if attempt or tail or since:
                yield from client.logs(job.id, follow, attempt, tail, since)
            else:
                yield from _of_all_attempts(client, job.id, follow)


def _of_all_attempts(client: Client, id: str, follow: bool) -> Iterator[str]:
    job = client.job(id)
    for attempt in count(1):
        if job.attempt > 1:
            _print_separator(f"attempt {attempt}")
        yield from client.logs(id, follow, attempt)
        if follow:
            job = client.job(id)
        if attempt >= job.attempt:
            return


def _print_separator(what: str) -> None:
    """Print to stderr whose output follows."""
    sys.stdout.flush()  # both may go to one place
    print(f"--- {what}", file=sys.stderr, flush=True)
