"""Over random environments: every place that says how many slices there are says the same number.

Expected numbers are worked out from the file as written and the catalog's rows; generated YAML is parsed
by a reader that shares nothing with the writer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from typing import Any

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.plan_json import plan_json
from gpupool.generators import delivery, generate
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, bundle
from gpupool.generators.render import files
from tests.environment_combinations import combinations_of
from tests.environment_files import Data, plan_of
from tests.environment_strategies import (
    environments,
    gpus_max,
    gpus_of,
    gpus_per_node,
    load_catalog,
    names,
    nodes_max,
    per_gpu,
    pools,
)
from tests.examples import examples

slow = examples("environments", 60)


def of_kind(made: Bundle, kind: str) -> list[dict[str, Any]]:
    return [dict(manifest.body) for manifest in made if manifest.kind == kind]


def times(counts: dict[str, int], factor: int) -> dict[str, int]:
    return {name: count * factor for name, count in counts.items()}


def config_maps(made: Bundle, prefix: str) -> list[dict[str, Any]]:
    return [body for body in of_kind(made, "ConfigMap") if body["metadata"]["name"].startswith(prefix)]


def configured_per_gpu(made: Bundle, pool: Data) -> dict[str, int]:
    """Slices of a GPU by what device plugin and MIG manager would do with their configurations."""
    (plugin,) = config_maps(made, "gpupool-device-plugin-")
    settings = yaml.safe_load(plugin["data"][pool["name"]])
    assert settings["version"] == "v1"
    sharing = settings.get("sharing", {})
    shared = [row for how in sharing.values() for row in how["resources"]]
    renamed = any(how["renameByDefault"] for how in sharing.values())
    if settings["flags"]["migStrategy"] == "mixed":
        assert not shared
        (parted,) = config_maps(made, "gpupool-mig-")
        label = node_labels(made, pool)["nvidia.com/mig.config"]
        (entry,) = yaml.safe_load(parted["data"]["config.yaml"])["mig-configs"][label]
        assert entry["devices"] == "all"
        assert entry["mig-enabled"] is True
        return {f"nvidia.com/mig-{name.replace('+', '.')}": n for name, n in entry["mig-devices"].items()}
    name = "nvidia.com/gpu.shared" if renamed else "nvidia.com/gpu"
    return {name: shared[0]["replicas"] if shared else 1}


def node_labels(made: Bundle, pool: Data) -> dict[str, str]:
    for body in of_kind(made, "NodePool"):
        if body["metadata"]["labels"]["gpupool.dev/pool"] == pool["name"]:
            return dict(body["spec"]["template"]["metadata"]["labels"])
    # Nodes chosen by selector are known to the cluster alone; what they get is in the plan.
    for manifest in made:
        if manifest.kind == "Node" and manifest.labels["gpupool.dev/pool"] == pool["name"]:
            return dict(manifest.labels)
    return {}


@slow
@given(environments())
def test_slices_agree_everywhere(environment: Data) -> None:
    plan = plan_of(environment)
    made, said = generate(plan), plan_json(plan)
    slots = Counter[tuple[str, str]]()
    for slot in said["queue"]["slots"]:
        slots[slot["pool"], slot["resource"]] += slot["slots"]
    for pool, planned in zip(environment["pools"], said["pools"], strict=True):
        per_node = times(per_gpu(pool), gpus_per_node(pool))
        assert planned["slicesPerNode"] == per_node
        assert planned["gpusPerNode"] == gpus_per_node(pool)
        if plan.uses_gpu_operator and node_labels(made, pool):
            assert times(configured_per_gpu(made, pool), gpus_per_node(pool)) == per_node
        for resource, count in per_node.items():
            assert slots.pop((pool["name"], resource)) == count // gpus_per_node(pool) * gpus_max(pool)
    assert not slots


@slow
@given(environments())
def test_karpenter_counts_what_the_nodes_will_advertise(environment: Data) -> None:
    made = generate(plan_of(environment))
    overlays, node_pools = of_kind(made, "NodeOverlay"), of_kind(made, "NodePool")
    started = [pool for pool in environment["pools"] if "instanceTypes" in pool["nodes"]]
    shared = [pool for pool in started if (pool.get("sharing") or {}).get("mode", "exclusive") != "exclusive"]
    assert bool(overlays) == bool(shared)
    assert bool(node_pools) == bool(started)
    for pool in started:
        own = [np for np in node_pools if np["metadata"]["labels"]["gpupool.dev/pool"] == pool["name"]]
        limits = Counter[str]()
        for node_pool in own:
            limits.update({name: int(value) for name, value in node_pool["spec"]["limits"].items()})
        alike = {"nodes": nodes_max(pool)} if "max" in pool["nodes"] else {}
        assert limits == {**alike, **times(per_gpu(pool), gpus_max(pool))}
        for node_pool in own:
            for name in pool["nodes"]["instanceTypes"]:
                gpus = gpus_of(load_catalog()[pool["gpu"]], name)
                assert capacity(overlays, node_pool["metadata"]["name"], name, gpus) == times(
                    per_gpu(pool), gpus
                )


def capacity(overlays: list[dict[str, Any]], node_pool: str, instance_type: str, gpus: int) -> dict[str, int]:
    """What Karpenter reckons with: the instance type's own GPUs, unless overlays say otherwise."""
    result = {"nvidia.com/gpu": gpus}
    facts = {"karpenter.sh/nodepool": node_pool, "node.kubernetes.io/instance-type": instance_type}
    matching = [
        overlay
        for overlay in overlays
        if all(facts[rule["key"]] in rule["values"] for rule in overlay["spec"]["requirements"])
    ]
    assert len(matching) <= 1, "two overlays of one weight conflict"
    for overlay in matching:
        result |= {name: int(value) for name, value in overlay["spec"]["capacity"].items()}
    return {name: count for name, count in result.items() if count}


@slow
@given(environments())
def test_quotas_are_the_grants_and_never_more_than_the_pools(environment: Data) -> None:
    plan = plan_of(environment)
    written = {pool["name"]: pool for pool in environment["pools"]}
    every = {name for pool in written.values() for name in per_gpu(pool)}
    found = of_kind(generate(plan), "ResourceQuota")
    quotas = {
        q["metadata"]["namespace"]: q["spec"]["hard"] for q in found if q["metadata"]["name"] == "gpupool"
    }
    assert set(quotas) == {tenant["namespace"] for tenant in environment["tenants"]}
    for tenant in environment["tenants"]:
        wanted, bound = Counter[str](), Counter[str]()
        grants = {name: whole(grant) for name, grant in tenant["pools"].items()}
        for name, grant in grants.items():
            wanted.update(granted(written[name], grant))
            bound.update(times(per_gpu(written[name]), gpus_max(written[name])))
        hard = dict(quotas[tenant["namespace"]])
        compute = {name: hard.pop(name, None) for name in ("requests.cpu", "requests.memory")}
        devices = {name: hard.pop(name) for name in list(hard) if ".deviceclass." in name}
        devices |= {name: hard.pop(name) for name in list(hard) if name.startswith("requests.deviceclass.")}
        assert devices, "no claim is free"
        assert set(devices.values()) == {"0"}
        cards = hard.pop("requests.vpc.amazonaws.com/efa", None)
        assert (cards is not None) == any(cards_per_gpu(pool) for pool in written.values())
        shared = (
            cards_per_gpu(written[name]) * equivalent(written[name], resource) * count
            for name, grant in grants.items()
            for resource, count in granted(written[name], grant).items()
        )
        assert int(cards or 0) == int(sum(shared, Fraction(0)))
        assert {name: int(value) for name, value in hard.items()} == {
            f"requests.{name}": wanted[name] for name in every
        }
        shares = [share_of(written[name], granted(written[name], grant)) for name, grant in grants.items()]
        extra = tenant.get("extra", {})
        bounded = bool(shares or extra) and None not in shares
        assert (compute["requests.cpu"] is not None) == bounded
        if bounded:
            assert compute["requests.cpu"] == cpu_text(
                sum(row[0] for row in shares if row) + 1000 * extra.get("cpus", 0)
            )
        assert all(count <= bound[name] for name, count in wanted.items())


def whole(grant: Data) -> Data:
    """With what may be borrowed, which the tenant's first quota allows too."""
    (unit,) = grant.keys() - {"upTo"}
    most = grant.get("upTo", grant[unit])
    return {unit: {**grant[unit], **most} if unit == "profiles" else most}


def granted(pool: Data, grant: Data) -> dict[str, int]:
    if "profiles" in grant:
        return {
            f"nvidia.com/mig-{name.replace('+', '.')}": count for name, count in grant["profiles"].items()
        }
    return (
        times(per_gpu(pool), grant["gpus"])
        if "gpus" in grant
        else dict.fromkeys(per_gpu(pool), grant["slices"])
    )


def cards_per_gpu(pool: Data) -> Fraction:
    """Network cards with EFA that come with a GPU, on the machine that has most of them."""
    types = pool["nodes"].get("instanceTypes", ())
    rows = [row for row in load_catalog()[pool["gpu"]].instance_types if row.name in types]
    return max((Fraction(row.efa or 0, row.gpus) for row in rows), default=Fraction(0))


def share_of(pool: Data, slices: dict[str, int]) -> tuple[int, int] | None:
    """Thousandths of a core and MiB that come with so many slices of a pool as written: nine tenths of the
    machine that has most for each GPU. None where the file does not say how large the machines are."""
    nodes, gpu = pool["nodes"], load_catalog()[pool["gpu"]]
    rows = [row for row in gpu.instance_types if row.name in nodes.get("instanceTypes", ())]
    sizes = [(Fraction(row.vcpus), Fraction(row.memory_gib) * 1024, row.gpus) for row in rows]
    if "size" in nodes:
        memory = nodes["size"]["memory"]
        mib = int(memory[:-2]) * {"Gi": 1024, "Ti": 1024**2}[memory[-2:]]
        sizes = [(Fraction(nodes["size"]["cpus"]), Fraction(mib), nodes["gpus"])]
    if not sizes:
        return None
    cpu = ram = 0
    for name, count in slices.items():
        part = equivalent(pool, name) * Fraction(9, 10)
        cpu += count * max(int(1000 * part * cpus / gpus) for cpus, _, gpus in sizes)
        ram += count * max(int(part * int(mib) / gpus) for _, mib, gpus in sizes)
    return cpu, ram


def equivalent(pool: Data, resource: str) -> Fraction:
    """The part of a GPU that one of `resource` is."""
    gpu, sharing = load_catalog()[pool["gpu"]], pool.get("sharing") or {"mode": "exclusive"}
    if sharing["mode"] == "mig":
        assert gpu.mig is not None
        profile = next(
            p for p in gpu.mig.profiles if f"nvidia.com/mig-{p.name.replace('+', '.')}" == resource
        )
        return Fraction(profile.size, gpu.mig.slots)
    return Fraction(1, sharing.get("replicas", 1))


def cpu_text(millis: int) -> str:
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


@slow
@given(environments())
def test_the_shares_of_all_slices_fit_on_a_node(environment: Data) -> None:
    for pool in plan_of(environment).pools:
        for machine in pool.machines:
            if machine.size is None or len(pool.machines) > 1:
                continue  # of several sizes the most generous one counts
            shares = [pool.share(name) for name, count in machine.slices.items() for _ in range(count)]
            assert sum(share.cpu_millis for share in shares if share) <= machine.size.cpu_millis * Fraction(
                9, 10
            )
            assert sum(share.memory_mib for share in shares if share) <= machine.size.memory_mib * Fraction(
                9, 10
            )


@slow
@given(environments())
def test_equivalents_never_exceed_the_physical_gpus(environment: Data) -> None:
    for pool in plan_of(environment).pools:
        whole = sum(
            (count * pool.equivalents[name] for name, count in pool.slices_per_node.items()), Fraction(0)
        )
        assert whole <= pool.gpus_per_node
        if pool.sharing.mode != "mig":
            assert whole == pool.gpus_per_node


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@slow
@given(environments())
def test_every_name_and_label_is_one_that_kubernetes_takes(environment: Data) -> None:
    for manifest in generate(plan_of(environment)):
        assert len(manifest.name) <= 63
        assert all(_LABEL.fullmatch(part) for part in manifest.name.split(".")), manifest
        for value in manifest.labels.values():
            assert _VALUE.fullmatch(value), value
        if not manifest.patch:
            assert manifest.labels["app.kubernetes.io/managed-by"] == "gpupool"
            assert manifest.labels["gpupool.dev/environment"] == "random"
        if manifest.kind == "ConfigMap":
            assert all(re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key) for key in manifest.body["data"])


@slow
@given(environments())
def test_no_two_objects_or_files_collide(environment: Data) -> None:
    made = generate(plan_of(environment))
    identities = [(m.api_version, m.kind, m.namespace, m.name) for m in made]
    assert len(set(identities)) == len(identities)
    rendered = files(made)
    assert len(rendered) == len(made.manifests) + len(made.releases) + len(delivery.wrappers(made)) + 1
    folded = Counter(path.lower() for path in rendered)
    assert max(folded.values()) == 1, "a file system that ignores case keeps them apart"


@slow
@given(environments())
def test_generation_is_deterministic_and_reads_back(environment: Data) -> None:
    made = generate(plan_of(environment))
    rendered = files(made)
    assert rendered == files(generate(plan_of(json.loads(json.dumps(environment)))))
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    bodies = [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts]
    for manifest in made:
        assert plain(delivery.body(manifest, made.delivery)) in bodies


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@slow
@given(environments())
def test_an_object_comes_after_all_that_it_names(environment: Data) -> None:
    seen: set[tuple[str, str]] = set()
    made = generate(plan_of(environment))
    everything = {(m.kind, m.name) for m in made}
    for manifest in made:
        for needed in references(manifest):
            assert needed in seen or needed not in everything, f"{manifest} before {needed}"
        seen.add((manifest.kind, manifest.name))


def references(manifest: Manifest) -> list[tuple[str, str]]:
    """Kind and name of what an object needs to be there before it."""
    body, found = manifest.body, list[tuple[str, str]]()
    if manifest.namespace:
        found.append(("Namespace", manifest.namespace))
    if manifest.kind == "RoleBinding":
        found.append((body["roleRef"]["kind"], body["roleRef"]["name"]))
        found += [("ServiceAccount", s["name"]) for s in body["subjects"] if s["kind"] == "ServiceAccount"]
    if manifest.kind == "NodePool":
        reference = body["spec"]["template"]["spec"]["nodeClassRef"]
        found.append((reference["kind"], reference["name"]))
    if manifest.kind == "ClusterPolicy":
        operands = [body["spec"].get(operand, {}) for operand in ("devicePlugin", "migManager")]
        names = [operand["config"].get("name") for operand in operands if operand]
        found += [("ConfigMap", name) for name in names if name]
    if manifest.kind == "Deployment":
        found.append(("PriorityClass", body["spec"]["template"]["spec"]["priorityClassName"]))
    return found


@slow
@given(environments())
def test_operands_run_on_every_node_of_every_pool(environment: Data) -> None:
    assume("gpuOperator" in environment)
    # Where the operator is somebody else's, its tolerations are too.
    environment["gpuOperator"]["install"] = True
    plan = plan_of(environment)
    tolerations = operand_tolerations(generate(plan))
    for pool in plan.pools:
        for taint in pool.taints:
            assert any(tolerates(toleration, taint.as_dict()) for toleration in tolerations), taint


def operand_tolerations(made: Bundle) -> list[dict[str, str]]:
    for release in made.releases:
        if release.name == "gpu-operator":
            return list(release.values["daemonsets"]["tolerations"])
    (policy,) = of_kind(made, "ClusterPolicy")
    return list(policy["spec"]["daemonsets"]["tolerations"])


def tolerates(toleration: dict[str, str], taint: dict[str, str]) -> bool:
    """As the scheduler decides it (Kubernetes API, Toleration)."""
    if toleration.get("effect") not in (None, taint["effect"]) or toleration["key"] != taint["key"]:
        return False
    return toleration["operator"] == "Exists" or toleration.get("value", "") == taint.get("value", "")


SHARED = {"ConfigMap", "ClusterPolicy", "PriorityClass", "KWOKNodeClass", "ResourceQuota"}
"""What all pools share: configurations, the operator that points at them, the warm pods' class, and quotas,
which name every resource of the environment."""


@slow
@given(st.data())
def test_a_pool_added_touches_no_other_pool(data: st.DataObject) -> None:
    environment = data.draw(environments())
    name = data.draw(names())
    taken = {pool["name"] for pool in environment["pools"]}
    assume(name not in taken and not name.endswith(("-spot", "-reserved")))
    kinds = {kind for it in combinations_of(environment) for kind in it.kinds}
    by_files = "delivery" in environment
    added = data.draw(pools(environment["cluster"]["platform"], name, kinds, by_files))
    for reservation in added["nodes"].get("reserved", ()):
        reservation["id"] = "cr-added"
    before, after = plan_of(environment), plan_of({**environment, "pools": [*environment["pools"], added]})
    for manifest in changed(before, after):
        if manifest.kind not in SHARED:
            assert manifest.labels.get("gpupool.dev/pool") == name, f"{manifest} has nothing to do with it"
    releases = {r.name for r in symmetric(generate(before).releases, generate(after).releases)}
    assert releases <= {"gpu-operator", "gpu-scheduler"}  # the queue reads the file itself


@slow
@given(st.data())
def test_a_pool_renamed_touches_no_other_pool(data: st.DataObject) -> None:
    environment = data.draw(environments())
    assume(environment["pools"])
    name = data.draw(names())
    old = environment["pools"][0]["name"]
    taken = {pool["name"] for pool in environment["pools"]}
    assume(name not in taken and not name.endswith(("-spot", "-reserved")))
    renamed = json.loads(json.dumps(environment))
    renamed["pools"][0]["name"] = name
    for tenant in renamed["tenants"]:
        tenant["pools"] = {name if pool == old else pool: grant for pool, grant in tenant["pools"].items()}
    for manifest in changed(plan_of(environment), plan_of(renamed)):
        if manifest.kind not in SHARED - {"PriorityClass"}:
            assert manifest.labels.get("gpupool.dev/pool") in (old, name), manifest


@slow
@given(environments())
def test_order_of_pools_and_tenants_changes_nothing_but_configurations(environment: Data) -> None:
    tenants = [
        {**tenant, "pools": dict(reversed(tenant["pools"].items()))}
        for tenant in environment["tenants"][::-1]
    ]
    turned = {**environment, "pools": environment["pools"][::-1], "tenants": tenants}
    assert not changed(plan_of(environment), plan_of(turned))


def changed(before: Plan, after: Plan) -> list[Manifest]:
    """Manifests that are in one of the two renderings only."""
    first = {plain_key(manifest): manifest for manifest in generate(before)}
    second = {plain_key(manifest): manifest for manifest in generate(after)}
    return [first.get(key) or second[key] for key in first.keys() ^ second.keys()]


def plain_key(manifest: Manifest) -> str:
    return json.dumps(manifest.body, sort_keys=True)


def symmetric(first: tuple[HelmRelease, ...], second: tuple[HelmRelease, ...]) -> list[HelmRelease]:
    return [r for r in first if r not in second] + [r for r in second if r not in first]


@given(environments())
@slow
def test_application_order_does_not_depend_on_the_order_of_generation(environment: Data) -> None:
    made = generate(plan_of(environment))
    parts = [*reversed(made.manifests), *made.releases]
    assert bundle("random", parts, made.delivery) == made
