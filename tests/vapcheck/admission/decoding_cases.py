"""Values that the API server reads and values that it can't: the expectations of the unit test, and what the
test on a real server holds it to."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def config_map(**more: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        **more,
        "metadata": {"name": "c"} | more.get("metadata", {}),
    }


def pod(**container: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "x", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def _memory(value: Any) -> Object:
    return pod(resources={"limits": {"memory": value}})


def _deployment(value: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": _memory(value)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def _target(value: Any) -> Object:
    spec = {"ports": [{"port": 80, "targetPort": value}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}


def _port(value: Any) -> Object:
    return pod(ports=[{"containerPort": value}])


def _grace(value: Any) -> Object:
    return _port(80) | {"spec": _port(80)["spec"] | {"terminationGracePeriodSeconds": value}}


def _exit_codes(value: Any) -> Object:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [value]}}
    template = {"spec": {"restartPolicy": "Never", **pod()["spec"]}}
    spec = {"podFailurePolicy": {"rules": [rule]}, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def _secret(value: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": value}}


def _binary(value: Any) -> Object:
    return config_map(binaryData={"a": value})


def _created(value: Any) -> Object:
    return config_map(metadata={"creationTimestamp": value})


def _started(value: Any) -> Object:
    return pod() | {"status": {"startTime": value}}


def _renewed(value: Any) -> Object:
    spec = {"renewTime": value}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}


def _label(value: Any) -> Object:
    return config_map(metadata={"labels": {"b": value}})


def _prefix(value: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": value}}


_DAY = "2026-01-01T00:00:00"
_MICRO = f"{_DAY}.123456Z"
_FAR = ["0000-02-29T00:00:00Z", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"]
_NEVER = ["2026-01-01", "2026-01-01 00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"]
_ROWS: list[tuple[Any, list[Any], list[Any]]] = [
    (
        _memory,
        ["1Gi", " 1 ", "+", "-", ".", "1.", "1E", "1e5000", "9" * 5000, 1.5, 1e30, 7, None],
        ["1GB", "1Kb", "1 Gi", "", "1e", "1_000", "1\n", "\uff11", True, [], {}],
    ),
    (_deployment, ["1G"], ["1GB"]),
    (_target, ["x", "", 80, None], [True, 1.5, [1], {}, 99_999_999_999, 2**31]),
    (_port, [80], [99_999_999_999, 2**31, 1.5, True, "80"]),
    (_grace, [2**63 - 1], [2**63, 1e20]),
    (_exit_codes, [42], [2**31, "1"]),
    (
        _secret,
        ["YQ==", "YR==", "YQ=\n=", "YWJj\r\nYQ==", ""],
        ["YQ", "YQ=", "YQ===", "!!", " YQ==", "-_==", 5],
    ),
    (_binary, ["YQ==", ""], ["YQ", "é", 5]),
    (
        _created,
        [
            *(_DAY + end for end in ("Z", ".5Z", ",5Z", "+24:00", "+01:60")),
            "2026-01-01T5:00:00Z",
            None,
            *_FAR,
        ],
        [*(_DAY + end for end in ("", "z", ".Z", "+0100", "+25:00", "+01:61")), "foo", "", 5, *_NEVER],
    ),
    (_started, [f"{_DAY}Z"], ["foo"]),
    (
        _renewed,
        [_MICRO, _MICRO.replace("Z", "+01:00"), _MICRO.replace(".", ",")],
        [f"{_DAY}Z", f"{_DAY}.5Z", f"{_DAY}.1234567Z", "foo", 5],
    ),
    (_label, ["yes", None], [True, 5, ["a"]]),
    (_prefix, ["a-"], [5, [], {}]),
]
READ: list[Object] = [made(value) for made, good, _ in _ROWS for value in good]
UNREAD: list[Object] = [made(value) for made, _, bad in _ROWS for value in bad]
