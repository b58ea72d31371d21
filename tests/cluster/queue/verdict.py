"""Whether a queue that faults befell kept its word, judged from outside: by the database and by an observer.

Every job ended once, each attempt was one Job object, no two attempts of a job ran at once, money balances,
and nothing is left behind. It does not know which faults there were.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL, RECORDED_FINALIZER
from tests.cluster.queue.observer import Observer, Seen
from tests.cluster.queue.served import Queue

Row = dict[str, Any]


def held(queue: Queue) -> list[str]:
    """Jobs and pods that our finalizer keeps."""
    api = queue.kube.api
    things = [*api.list("batch/v1", "Job", selector=JOB_LABEL), *api.list("v1", "Pod", selector=JOB_LABEL)]
    return [
        thing["metadata"]["name"]
        for thing in things
        if RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ())
    ]


def ended_once(queue: Queue) -> list[Row]:
    """All jobs of the database: each has ended, once, and what its attempts held has been settled."""
    jobs = queue.rows(
        "SELECT id::text, name, state, attempt, failures, disruptions, reason, cost_micro, seq FROM gpu_jobs"
    )
    events = queue.rows("SELECT job::text, type FROM gpu_events")
    kinds = Counter((row["job"], row["type"]) for row in events)
    for job in jobs:
        assert kinds[job["id"], job["state"]] == 1, job
        assert kinds[job["id"], "dispatched"] == job["attempt"], job
        if job["state"] == "succeeded":
            assert job["attempt"] == job["failures"] + job["disruptions"] + 1, job
    unbalanced = queue.rows(
        "SELECT job FROM gpu_ledger GROUP BY job, attempt "
        "HAVING sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) <> 0"
    )
    assert not unbalanced
    charged = queue.rows(
        "SELECT job::text, sum(micro) AS micro FROM gpu_ledger WHERE kind = 'settle' GROUP BY job"
    )
    assert {row["job"]: row["micro"] for row in charged} == {
        job["id"]: job["cost_micro"] for job in jobs if job["attempt"]
    }
    accounts = queue.rows("SELECT name, held_micro FROM gpu_accounts WHERE held_micro <> 0")
    assert not accounts
    return jobs


def cluster_agrees(queue: Queue, observer: Observer, jobs: list[Row]) -> None:
    """What the API server has seen: no attempt twice, none of which the queue does not know, no two attempts
    of a job at once; and nothing runs any more."""
    made = {
        (seen.labels[JOB_LABEL], int(seen.labels[ATTEMPT_LABEL]), seen.uid)
        for seen in observer.seen("Job")
        if JOB_LABEL in seen.labels
    }
    attempts = [(job, attempt) for job, attempt, _ in made]
    assert len(attempts) == len(set(attempts)), [key for key, count in Counter(attempts).items() if count > 1]
    assert set(attempts) <= {(job["id"], n + 1) for job in jobs for n in range(job["attempt"])}
    _one_attempt_at_a_time(observer)
    left = queue.kube.api.list("v1", "Pod", selector=JOB_LABEL)
    assert not [pod for pod in left if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def _one_attempt_at_a_time(observer: Observer) -> None:
    """No attempt starts while a pod of another one runs. Within an attempt the Job controller may make a
    second pod, where the server dies before it answers (Kubernetes documentation, Jobs: "may sometimes be
    started twice")."""
    running: dict[str, dict[str, str]] = {}
    for seen in observer.seen("Pod"):
        job = seen.labels.get(JOB_LABEL)
        if job is None:
            continue
        there = running.setdefault(job, {})
        if seen.holds_node:
            there[seen.uid] = seen.labels[ATTEMPT_LABEL]
        else:
            there.pop(seen.uid, None)
        assert len(set(there.values())) <= 1, f"two attempts of job {job} run at once: {there}"


def _ended_first(pod: dict[str, Any]) -> bool:
    """Whether its containers had ended in a second before that in which it was asked to: a slow kubelet says
    so later."""
    metadata = pod["metadata"]
    grace = timedelta(seconds=metadata["deletionGracePeriodSeconds"])
    deleted = datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
    states = [container["state"]["terminated"] for container in pod["status"]["containerStatuses"]]
    return all(datetime.fromisoformat(state["finishedAt"]) < deleted for state in states)


def succeeded_by_themselves(queue: Queue, observer: Observer) -> set[tuple[str, str]]:
    """The attempts (job, attempt) that count as a success: a pod of each succeeded before it was asked to
    end. Another one of the same attempt may have been: the Job controller deletes a second pod that it made.
    """
    attempts = {
        (row["job"], str(row["attempt"]))
        for row in queue.rows("SELECT job::text, attempt FROM gpu_attempts WHERE outcome = 'succeeded'")
    }
    asked_to_end: set[str] = set()
    ended: dict[tuple[str, str], dict[str, Seen]] = {}
    for seen in observer.seen("Pod"):
        attempt = (seen.labels.get(JOB_LABEL, ""), seen.labels.get(ATTEMPT_LABEL, ""))
        if seen.thing["status"].get("phase") in ("Succeeded", "Failed"):
            ended.setdefault(attempt, {}).setdefault(seen.uid, seen)
        elif "deletionTimestamp" in seen.thing["metadata"]:
            asked_to_end.add(seen.uid)
    assert attempts <= ended.keys()
    for attempt in attempts:
        succeeded = [pod for pod in ended[attempt].values() if pod.thing["status"]["phase"] == "Succeeded"]
        by_itself = [pod for pod in succeeded if pod.uid not in asked_to_end or _ended_first(pod.thing)]
        assert by_itself, f"{attempt} was asked to end, and counts as a success"
    return attempts
