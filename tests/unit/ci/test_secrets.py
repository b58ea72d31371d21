"""No job that can run what a pull or merge request brings has a secret: read from every template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
GITLAB = sorted((ROOT / "ci" / "gitlab").glob("*.y*ml"))
GITHUB = sorted([*(ROOT / "ci" / "github").glob("*.y*ml"), *(ROOT / ".github" / "workflows").glob("*.y*ml")])
OURS = re.compile(r"\$\{?(GPUPOOL_(?:TOKEN|KUBECONFIG)|\w*(?:TOKEN|SECRET|PASSWORD|KUBECONFIG|KEY))\b")
"""Variables of GitLab's settings, by what they are called."""
DEFAULT_BRANCH = (
    "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH",
    '$CI_COMMIT_REF_PROTECTED == "true"',
)
"""What every rule of a GitLab job with secrets has to ask for."""


def gitlab_faults(text: str) -> Iterator[str]:
    """What is wrong with a template of GitLab."""
    jobs: dict[str, Any] = {}
    for document in yaml.safe_load_all(text):
        jobs |= {name: job for name, job in document.items() if isinstance(job, dict) and "script" in job}
    for name, job in jobs.items():
        inherited = jobs.get(job.get("extends", ""), {}) | job
        if not OURS.search(str({**inherited, "rules": []})):
            continue
        if "environment" not in job:
            yield f"{name}: its variables can't be scoped to an environment"
        for rule in inherited.get("rules") or [{}]:
            terms = rule.get("if", "").split(" && ")
            if not set(DEFAULT_BRANCH) <= set(terms) or "||" in rule.get("if", ""):
                yield f"{name}: runs with a secret where {rule.get('if')}"


def github_faults(text: str) -> Iterator[str]:
    """What is wrong with a workflow of GitHub."""
    workflow = yaml.safe_load(text)
    events = workflow[True] if isinstance(workflow[True], dict) else {workflow[True]: None}
    if "pull_request_target" in events:
        yield "pull_request_target runs with the rights of the repository"
    if any(right != "read" for right in workflow.get("permissions", {"all": "write"}).values()):
        yield "permissions of all jobs are more than to read"
    proposed = bool({"pull_request", "workflow_call", "workflow_run"} & set(events))
    for name, job in workflow["jobs"].items():
        written = str(job)
        if job.get("secrets") == "inherit":
            yield f"{name}: passes all secrets on"
        if proposed and "secrets." in written:
            yield f"{name}: a secret in a job of pull requests"
        if "secrets." in written and "environment" not in job:
            yield f"{name}: a secret without an environment"
        writes = [right for right, kind in job.get("permissions", {}).items() if kind == "write"]
        runs_code = any("checkout" in step.get("uses", "") for step in job.get("steps", ()))
        if proposed and runs_code and (writes or "github.token" in written):
            yield f"{name}: runs what a pull request brings, with {writes or 'the token'}"
        for step in job.get("steps", ()):
            checks_out = "checkout" in step.get("uses", "")
            if checks_out and step.get("with", {}).get("persist-credentials") is not False:
                yield f"{name}: checkout leaves the token in the clone"


def test_every_template_keeps_secrets_from_merge_requests() -> None:
    assert GITLAB
    assert GITHUB
    faults = {path.name: [*gitlab_faults(path.read_text(encoding="utf-8"))] for path in GITLAB}
    faults |= {path.name: [*github_faults(path.read_text(encoding="utf-8"))] for path in GITHUB}
    assert {name: found for name, found in faults.items() if found} == {}


def test_what_would_be_found() -> None:
    """The jobs as they were, a deploy token in a merge request's pipeline, and others of the kind."""
    rule = '$CI_PIPELINE_SOURCE == "merge_request_event" && $GPUPOOL_TOKEN'
    script = ['curl --header "PRIVATE-TOKEN: $GPUPOOL_TOKEN"']
    old = {"comment": {"script": script, "rules": [{"if": rule}]}}
    assert len([*gitlab_faults(yaml.safe_dump(old))]) == 2
    anywhere = {"deploy": {"script": script, "environment": "x", "rules": []}}
    assert [*gitlab_faults(yaml.safe_dump(anywhere))]
    either = {"if": " && ".join(DEFAULT_BRANCH) + ' || $CI_PIPELINE_SOURCE == "merge_request_event"'}
    assert [*gitlab_faults(yaml.safe_dump({"x": {"script": script, "environment": "x", "rules": [either]}}))]
    job = {"steps": [{"uses": "actions/checkout@x", "env": {"K": "${{ secrets.K }}"}}]}
    for event in ("pull_request", "pull_request_target", "workflow_run"):
        assert [*github_faults(yaml.safe_dump({True: {event: None}, "jobs": {"x": job}}))]
