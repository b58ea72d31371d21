"""The table of what is done about an attempt: every pair has an action, and each leads to what is desired."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.kubernetes.observe import Ended, Pending, Running, View
from gpupool.queue.kubernetes.pod_ends import Object
from gpupool.queue.records import Job, Level, Outcome, Reason, State, Waiting, new_id
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.attempt_actions import (
    ACTIONS,
    FOREGROUND,
    Action,
    Desired,
    Observed,
    desired,
    observed,
)

LIVE = (Observed.STARTING, Observed.RUNNING, Observed.DELETED, Observed.STOPPING)
BY_ITSELF = {
    Observed.STARTING: (Observed.STARTING, Observed.RUNNING, Observed.DELETED, Observed.ENDED),
    Observed.RUNNING: (Observed.RUNNING, Observed.DELETED, Observed.ENDED),
    Observed.DELETED: (Observed.DELETED, Observed.ENDED),
    Observed.STOPPING: (Observed.STOPPING, Observed.DELETED, Observed.ENDED),
    Observed.ENDED: (Observed.ENDED, Observed.LOST),
}
"""What the cluster and others in it may make of what is there. A process that takes over has not stopped the
Job itself, so it finds DELETED where the one before found STOPPING. ABSENT and LOST stay."""
MAKES = {
    Action.CREATE: Observed.STARTING,
    Action.STOP: Observed.STOPPING,
    Action.DISCARD: Observed.LOST,
}
PROGRESS = {Observed.STARTING: Observed.RUNNING, Observed.RUNNING: Observed.ENDED}
"""What becomes of what is left alone. All else that lives ends."""


def test_every_pair_has_an_action() -> None:
    assert set(ACTIONS) == set(product(Desired, Observed))
    assert set(ACTIONS.values()) == set(Action)


@pytest.mark.parametrize(("desired", "observed"), ACTIONS)
def test_no_action_does_harm(desired: Desired, observed: Observed) -> None:
    action = ACTIONS[desired, observed]
    if action is Action.CREATE:
        assert (desired, observed) == (Desired.RUN, Observed.ABSENT), "an attempt is created once"
    if action is Action.RECORD:
        assert observed not in LIVE, "nothing has ended while a container may run"
    if action in (Action.STOP, Action.WAIT):
        assert observed in LIVE, "there is nothing to stop or to wait for"
    if action is Action.STOP and desired is Desired.RUN:
        assert observed is Observed.DELETED, "what is to run is not stopped by us"
    assert (action is Action.DISCARD) == (desired is Desired.GONE), (
        "the end is written before it is forgotten"
    )


def after(action: Action, observed: Observed) -> Observed:
    """What the cluster has when the action has taken effect and nothing disturbs."""
    return PROGRESS.get(observed, Observed.ENDED) if action is Action.WAIT else MAKES[action]


def looks(desired: Desired, observed: Observed) -> int:
    """How many looks lead to what is desired when nothing disturbs: an end that is written (RUN and END), or
    nothing in the cluster (GONE)."""
    for count in range(1, 1 + len(Observed)):
        action = ACTIONS[desired, observed]
        if action in (Action.RECORD, Action.DISCARD):
            return count
        observed = after(action, observed)
    raise AssertionError(f"{desired}: never reached")


@pytest.mark.parametrize(("desired", "observed"), ACTIONS)
def test_each_action_leads_toward_what_is_desired(desired: Desired, observed: Observed) -> None:
    action = ACTIONS[desired, observed]
    if action not in (Action.RECORD, Action.DISCARD):
        assert looks(desired, after(action, observed)) == looks(desired, observed) - 1


@given(
    desired=st.sampled_from((Desired.RUN, Desired.END)),
    observed=st.sampled_from(Observed),
    events=st.lists(st.one_of(st.just("acts"), st.just("asked to end"), st.integers(0, 3)), max_size=12),
)
def test_whatever_happens_meanwhile_it_ends_and_is_created_once(
    desired: Desired, observed: Observed, events: list[str | int]
) -> None:
    """A number is one of the things that the cluster may do by itself."""
    created = observed is not Observed.ABSENT
    for event in events:
        action = ACTIONS[desired, observed]
        if event == "asked to end":
            desired = Desired.END
        elif isinstance(event, int):
            possible = BY_ITSELF.get(observed, (observed,))
            observed = possible[event % len(possible)]
        elif action is Action.RECORD:
            return
        else:
            assert not (action is Action.CREATE and created)
            created = True
            observed = MAKES.get(action, observed)
    assert looks(desired, observed) <= len(Observed)


def job_of_its_own() -> Job:
    return Job(
        id=new_id(), tenant="vision", project=None, user="ada", name="job", state=State.DISPATCHING,
        version=1, attempt=1, failures=0, disruptions=0, retries=1, priority="low", level=Level.LOW,
        isolation="shared", gpu_count=1, preemptible=True, preempts=False, timeout_s=600,
        budget_limit_micro=None, offers=(), request={}, plan_hash="x",
        enqueued_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


STARTS = Pending(Waiting(Reason.STARTING, "its pod is not created yet"), scheduled=False)
RUNS = Running(datetime(2026, 1, 1, tzinfo=UTC), "n1")
ENDS = Ended(Outcome("succeeded"), None, None, "n1")
JOB: Object = {"metadata": {}}
DELETED: Object = {"metadata": {"deletionTimestamp": "now"}}
FOREGROUND_DELETED: Object = {"metadata": {"deletionTimestamp": "now", "finalizers": [FOREGROUND]}}
POD: Object = {"metadata": {}}


@pytest.mark.parametrize(
    ("known", "job", "pods", "view", "expected"),
    [
        ({}, None, [], None, Observed.ABSENT),
        ({"seen": True}, None, [], None, Observed.LOST),
        ({"running": True}, None, [], None, Observed.LOST),
        ({}, JOB, [], STARTS, Observed.STARTING),
        ({}, JOB, [POD], RUNS, Observed.RUNNING),
        ({}, DELETED, [POD], RUNS, Observed.DELETED),
        ({"stopped": True}, JOB, [POD], RUNS, Observed.STOPPING),
        ({"stopped": True}, FOREGROUND_DELETED, [POD], RUNS, Observed.STOPPING),
        ({"stopped": True}, DELETED, [DELETED], RUNS, Observed.STOPPING),
        ({"stopped": True}, DELETED, [POD], RUNS, Observed.DELETED),
        ({}, None, [POD], RUNS, Observed.STOPPING),
        ({"stopped": True}, JOB, [POD], ENDS, Observed.ENDED),
        (None, None, [], None, Observed.ABSENT),
        (None, JOB, [POD], RUNS, Observed.RUNNING),
    ],
)
def test_what_the_cluster_has(
    known: dict[str, bool] | None,
    job: Object | None,
    pods: list[Object],
    view: View | None,
    expected: Observed,
) -> None:
    attempt = None if known is None else Attempt(job_of_its_own(), **known)
    assert observed(attempt, job, pods, view) is expected


def test_what_is_to_become_of_it() -> None:
    attempt = Attempt(job_of_its_own())
    assert desired(attempt) is Desired.RUN
    attempt.ask(cancelled=True, preempted=None)
    assert desired(attempt) is Desired.END
    assert desired(None) is Desired.GONE
