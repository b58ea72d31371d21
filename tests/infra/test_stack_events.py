"""Engine events become one entry per object."""

from __future__ import annotations

from typing import Any

from pulumi.automation.events import EngineEvent

from gpupool.infra.stack_events import Collector

URN = "urn:pulumi:prod::gpupool::kubernetes:karpenter.sh/v1:NodePool::NodePool/a"


def body(nodes: str, name: str = "a") -> dict[str, Any]:
    labels = {"gpupool.dev/pool": "a"}
    return {
        "kind": "NodePool",
        "metadata": {"name": name, "labels": labels},
        "spec": {"limits": {"nodes": nodes}},
    }


def step(op: str, event: str = "resourcePreEvent", old: Any = None, new: Any = None) -> EngineEvent:
    def state(inputs: Any) -> Any:
        return (
            {"type": "kubernetes:karpenter.sh/v1:NodePool", "urn": URN, "inputs": inputs} if inputs else None
        )

    metadata = {"op": op, "urn": URN, "type": "kubernetes:karpenter.sh/v1:NodePool", "provider": ""}
    return EngineEvent.from_json({event: {"metadata": {**metadata, "old": state(old), "new": state(new)}}})


def test_an_update_names_its_fields() -> None:
    collector = Collector()
    collector(step("update", old=body("2"), new=body("3")))
    entry = collector.outcome.changed[0]
    assert entry.as_dict() == {
        "op": "update",
        "kind": "NodePool",
        "namespace": None,
        "name": "a",
        "pool": "a",
        "fields": [{"path": "spec.limits.nodes", "old": "2", "new": "3"}],
        "error": None,
    }
    assert collector.outcome.counts == {"update": 1}


def test_the_steps_of_a_replacement_are_one_entry() -> None:
    reported: list[str] = []
    collector = Collector(reported.append)
    for op in ("create-replacement", "replace", "delete-replaced"):
        collector(step(op, old=body("2"), new=None if op == "delete-replaced" else body("2", "b")))
    assert collector.outcome.counts == {"replace": 1}
    entry = collector.outcome.changed[0]
    assert [str(field) for field in entry.fields] == ["metadata.name: a -> b"]
    assert reported == ["replace NodePool/b"], "one line of progress, not one for each step"


def test_a_silent_one_counts_what_it_does_not_report() -> None:
    reported: list[str] = []
    collector = Collector(reported.append)
    collector.silent = True
    collector(step("create", new=body("2")))
    assert collector.outcome.counts == {"create": 1}
    assert reported == []


def test_errors_name_the_object_not_the_urn() -> None:
    collector = Collector()
    collector(step("create", new=body("2")))
    message = {
        "severity": "error",
        "urn": URN,
        "message": "<{%reset%}>no such class<{%reset%}>\n",
        "color": "",
    }
    collector(EngineEvent.from_json({"diagnosticEvent": message}))
    noise = {"severity": "error", "urn": "", "message": "update failed\n", "color": ""}
    collector(EngineEvent.from_json({"diagnosticEvent": noise}))
    assert collector.outcome.errors == ["NodePool/a: no such class"]
    assert collector.outcome.changed[0].error == "no such class"


def test_an_etcd_without_space_is_put_into_words() -> None:
    """As the API server passes it on, and a provider of Pulumi's does after it."""
    collector = Collector()
    said = "creating: Internal error occurred: etcdserver: mvcc: database space exceeded"
    collector(EngineEvent.from_json({"diagnosticEvent": {"urn": URN, "severity": "error", "message": said}}))
    assert [line.partition(",")[0] for line in collector.outcome.errors] == [
        "NodePool/a: the cluster's etcd is out of space"
    ]


def said(message: str, severity: str = "error", urn: str = URN) -> EngineEvent:
    return EngineEvent.from_json({"diagnosticEvent": {"urn": urn, "severity": severity, "message": message}})


def test_advice_of_a_provider_is_left_out() -> None:
    collector = Collector()
    collector(said("refused:\n\n  no such class\nSee https://example.com\n  for advice\n"))
    assert collector.outcome.errors == ["NodePool/a: refused: no such class"]


def test_what_the_engine_says_of_its_plugins_is_left_out() -> None:
    collector = Collector()
    collector(said("using pulumi-resource-kubernetes from $PATH", "warning", ""))
    collector(said("is deprecated", "warning"))
    assert collector.outcome.warnings == ["NodePool/a: is deprecated"]
