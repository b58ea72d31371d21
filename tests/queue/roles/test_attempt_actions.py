"""The table of what is done about an attempt: every pair has an action, and each leads to what is desired."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.kubernetes.observe import Ended, PendingJob, RunningJob, View
from gpupool.queue.kubernetes.pod_ends import Object
from gpupool.queue.records import Job, JobState, Level, Outcome, Waiting, WaitReason, new_id
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.attempt_actions import (
    ACTIONS,
    FOREGROUND,
    AttemptAction,
    DesiredAttempt,
    ObservedAttempt,
    desired,
    observed,
)

LIVE = (ObservedAttempt.STARTING, ObservedAttempt.RUNNING, ObservedAttempt.DELETED, ObservedAttempt.STOPPING)
BY_ITSELF = {
    ObservedAttempt.STARTING: (
        ObservedAttempt.STARTING,
        ObservedAttempt.RUNNING,
        ObservedAttempt.DELETED,
        ObservedAttempt.ENDED,
    ),
    ObservedAttempt.RUNNING: (ObservedAttempt.RUNNING, ObservedAttempt.DELETED, ObservedAttempt.ENDED),
    ObservedAttempt.DELETED: (ObservedAttempt.DELETED, ObservedAttempt.ENDED),
    ObservedAttempt.STOPPING: (ObservedAttempt.STOPPING, ObservedAttempt.DELETED, ObservedAttempt.ENDED),
    ObservedAttempt.ENDED: (ObservedAttempt.ENDED, ObservedAttempt.LOST),
}
"""What the cluster and others in it may make of what is there. A process that takes over has not stopped the
Job itself, so it finds DELETED where the one before found STOPPING. ABSENT and LOST stay."""
MAKES = {
    AttemptAction.CREATE: ObservedAttempt.STARTING,
    AttemptAction.STOP: ObservedAttempt.STOPPING,
    AttemptAction.DISCARD: ObservedAttempt.LOST,
}
PROGRESS = {ObservedAttempt.STARTING: ObservedAttempt.RUNNING, ObservedAttempt.RUNNING: ObservedAttempt.ENDED}
"""What becomes of what is left alone. All else that lives ends."""


def test_every_pair_has_an_action() -> None:
    assert set(ACTIONS) == set(product(DesiredAttempt, ObservedAttempt))
    assert set(ACTIONS.values()) == set(AttemptAction)


@pytest.mark.parametrize(("desired", "observed"), ACTIONS)
def test_no_action_does_harm(desired: DesiredAttempt, observed: ObservedAttempt) -> None:
    action = ACTIONS[desired, observed]
    if action is AttemptAction.CREATE:
        assert (desired, observed) == (DesiredAttempt.RUN, ObservedAttempt.ABSENT), (
            "an attempt is created once"
        )
    if action is AttemptAction.RECORD:
        assert observed not in LIVE, "nothing has ended while a container may run"
    if action in (AttemptAction.STOP, AttemptAction.WAIT):
        assert observed in LIVE, "there is nothing to stop or to wait for"
    if action is AttemptAction.STOP and desired is DesiredAttempt.RUN:
        assert observed is ObservedAttempt.DELETED, "what is to run is not stopped by us"
    assert (action is AttemptAction.DISCARD) == (desired is DesiredAttempt.GONE), (
        "the end is written before it is forgotten"
    )


def after(action: AttemptAction, observed: ObservedAttempt) -> ObservedAttempt:
    """What the cluster has when the action has taken effect and nothing disturbs."""
    return PROGRESS.get(observed, ObservedAttempt.ENDED) if action is AttemptAction.WAIT else MAKES[action]


def looks(desired: DesiredAttempt, observed: ObservedAttempt) -> int:
    """How many looks lead to what is desired when nothing disturbs: an end that is written (RUN and END), or
    nothing in the cluster (GONE)."""
    for count in range(1, 1 + len(ObservedAttempt)):
        action = ACTIONS[desired, observed]
        if action in (AttemptAction.RECORD, AttemptAction.DISCARD):
            return count
        observed = after(action, observed)
    raise AssertionError(f"{desired}: never reached")


@pytest.mark.parametrize(("desired", "observed"), ACTIONS)
def test_each_action_leads_toward_what_is_desired(desired: DesiredAttempt, observed: ObservedAttempt) -> None:
    action = ACTIONS[desired, observed]
    if action not in (AttemptAction.RECORD, AttemptAction.DISCARD):
        assert looks(desired, after(action, observed)) == looks(desired, observed) - 1


@given(
    desired=st.sampled_from((DesiredAttempt.RUN, DesiredAttempt.END)),
    observed=st.sampled_from(ObservedAttempt),
    events=st.lists(st.one_of(st.just("acts"), st.just("asked to end"), st.integers(0, 3)), max_size=12),
)
def test_whatever_happens_meanwhile_it_ends_and_is_created_once(
    desired: DesiredAttempt, observed: ObservedAttempt, events: list[str | int]
) -> None:
    """A number is one of the things that the cluster may do by itself."""
    created = observed is not ObservedAttempt.ABSENT
    for event in events:
        action = ACTIONS[desired, observed]
        if event == "asked to end":
            desired = DesiredAttempt.END
        elif isinstance(event, int):
            possible = BY_ITSELF.get(observed, (observed,))
            observed = possible[event % len(possible)]
        elif action is AttemptAction.RECORD:
            return
        else:
            assert not (action is AttemptAction.CREATE and created)
            created = True
            observed = MAKES.get(action, observed)
    assert looks(desired, observed) <= len(ObservedAttempt)


def job_of_its_own() -> Job:
    return Job(
        id=new_id(), tenant="vision", project=None, user="ada", name="job", state=JobState.SCHEDULED,
        version=1, attempt=1, failures=0, disruptions=0, retries=1, priority="low", level=Level.LOW,
        isolation="shared", gpu_count=1, preemptible=True, preempts=False, timeout_s=600,
        budget_limit_micro=None, offers=(), request={}, plan_hash="x",
        enqueued_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


STARTS = PendingJob(Waiting(WaitReason.STARTING, "its pod is not created yet"), scheduled=False)
RUNS = RunningJob(datetime(2026, 1, 1, tzinfo=UTC), "n1")
ENDS = Ended(Outcome("succeeded"), None, None, "n1")
JOB: Object = {"metadata": {}}
DELETED: Object = {"metadata": {"deletionTimestamp": "now"}}
FOREGROUND_DELETED: Object = {"metadata": {"deletionTimestamp": "now", "finalizers": [FOREGROUND]}}
POD: Object = {"metadata": {}}


@pytest.mark.parametrize(
    ("known", "job", "pods", "view", "expected"),
    [
        ({}, None, [], None, ObservedAttempt.ABSENT),
        ({"seen": True}, None, [], None, ObservedAttempt.LOST),
        ({"running": True}, None, [], None, ObservedAttempt.LOST),
        ({}, JOB, [], STARTS, ObservedAttempt.STARTING),
        ({}, JOB, [POD], RUNS, ObservedAttempt.RUNNING),
        ({}, DELETED, [POD], RUNS, ObservedAttempt.DELETED),
        ({"stopped": True}, JOB, [POD], RUNS, ObservedAttempt.STOPPING),
        ({"stopped": True}, FOREGROUND_DELETED, [POD], RUNS, ObservedAttempt.STOPPING),
        ({"stopped": True}, DELETED, [DELETED], RUNS, ObservedAttempt.STOPPING),
        ({"stopped": True}, DELETED, [POD], RUNS, ObservedAttempt.DELETED),
        ({}, None, [POD], RUNS, ObservedAttempt.STOPPING),
        ({"stopped": True}, JOB, [POD], ENDS, ObservedAttempt.ENDED),
        (None, None, [], None, ObservedAttempt.ABSENT),
        (None, JOB, [POD], RUNS, ObservedAttempt.RUNNING),
    ],
)
def test_what_the_cluster_has(
    known: dict[str, bool] | None,
    job: Object | None,
    pods: list[Object],
    view: View | None,
    expected: ObservedAttempt,
) -> None:
    attempt = None if known is None else Attempt(job_of_its_own(), **known)
    assert observed(attempt, job, pods, view) is expected


def test_what_is_to_become_of_it() -> None:
    attempt = Attempt(job_of_its_own())
    assert desired(attempt) is DesiredAttempt.RUN
    attempt.ask_to_stop(cancelled=True, preempted=None)
    assert desired(attempt) is DesiredAttempt.END
    assert desired(None) is DesiredAttempt.GONE
