"""Following a job until it has ended: what happens to it, what it waits for, what it prints.

It asks the queue through the SDK, again and again with growing pauses, and decides nothing.
"""

from __future__ import annotations

import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING

from gpupool.cli.jobs_asked import lasting
from gpupool.findings import NoAnswer

if TYPE_CHECKING:
    from gpupool.client import Client, Event, Job, JobSpec

SOON_S = 2.0
"""A job that starts sooner is not said to wait."""


def events(client: Client, id: str) -> Iterator[Event]:
    """Everything that happens to the job."""
    from gpupool.client.sending import wait_pauses

    client.job(id)
    client = client.waiting()
    seen = 0
    with lasting():
        for pause in wait_pauses():
            ended = client.job(id).ended  # read before the events: what it ended with is then among them
            for event in client.history(id)[seen:]:
                seen += 1
                yield event
            if ended:
                return
            time.sleep(pause)


def submitted(client: Client, key: str | None, spec: JobSpec, question: Callable[[str], str]) -> Job:
    """The new job. Interrupted before there is an answer, it says how to ask what became of it."""
    key = key or str(uuid.uuid4())
    try:
        return client.submit_job(idempotency_key=key, **spec)
    except KeyboardInterrupt:
        print(question(key), file=sys.stderr, flush=True)
        raise


def all_ended(client: Client, submitted: Job) -> list[Job]:
    """The jobs of a submission when they have ended. Stopped before, it says how to go on, as the jobs do."""
    from gpupool.client import LostContact

    ids = submitted.job_ids or (submitted.id,)
    try:
        with lasting():
            return [_until(client.waiting(), id, lambda job: job.ended) for id in ids]
    except (KeyboardInterrupt, NoAnswer, LostContact):
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

    client.job(id)
    client = client.waiting()
    with lasting():
        _until(client, id, reached)


def _until(client: Client, id: str, reached: Callable[[Job], bool]) -> Job:
    """The job when it is so. What it waits for goes to stderr whenever that changes."""
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
        time.sleep(pause)
    raise AssertionError("unreachable")


def output(client: Client, id: str, follow: bool, only: int | None = None) -> Iterator[str]:
    """A job's output, of one attempt or all. Where it has several, stderr says which one follows."""
    job = client.job(id)
    client = client.waiting() if follow else client
    with lasting() if follow else nullcontext():
        if only:
            yield from client.logs(id, follow, only)
            return
        for attempt in count(1):
            if job.attempt > 1:
                sys.stdout.flush()  # both may go to one place
                print(f"--- attempt {attempt}", file=sys.stderr, flush=True)
            yield from client.logs(id, follow, attempt)
            if follow:
                job = client.job(id)
            if attempt >= job.attempt:
                return
