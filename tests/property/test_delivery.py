"""Over random environments and ways of delivery: stable bytes, the same objects, each applied just once and
after what it needs. Rendered YAML is parsed by a reader that shares nothing with the writer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.generators import delivery, generate
from gpupool.generators.layout import INDEX, manifest_path
from gpupool.generators.manifest import Bundle
from gpupool.generators.render import files
from gpupool.infra.apply import Dependencies
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments, names
from tests.examples import examples

slow = examples("environments", 15)
words = names(20)


@st.composite
def delivered(draw: st.DrawFn, *engines: str) -> Data:
    """A valid environment that Argo CD or Flux delivers."""
    environment = draw(environments())
    # Taints of nodes that are named can't be delivered by files.
    environment["pools"] = [
        {**pool, "taints": []} if "names" in pool["nodes"] else pool for pool in environment["pools"]
    ]
    for pool in environment["pools"]:
        pool.pop("fallbackTo", None)
    engine = draw(st.sampled_from(engines or ("argocd", "flux")))
    parts = draw(st.lists(words, max_size=3))
    removals = ("keep", "delete") if engine == "flux" else ("confirm", "keep", "delete")
    own = {
        "argocd": {"namespace": draw(words), "project": draw(words), "automated": draw(st.booleans())},
        "flux": {"namespace": draw(words), "secret": draw(words), "serviceAccount": draw(words)},
    }
    environment["delivery"] = {
        "engine": engine,
        "repo": draw(st.sampled_from(("https", "ssh", "oci"))) + "://git.example.com/" + draw(words),
        "path": "/".join(parts) or ".",
        "revision": draw(st.one_of(words, st.sampled_from(("v1.2.3", "a" * 40, "feature/x")))),
        "onRemoval": draw(st.sampled_from(removals)),
        **({engine: own[engine]} if draw(st.booleans()) else {}),
    }
    return environment


def read(rendered: dict[str, str]) -> dict[str, Any]:
    loader = yaml.CSafeLoader
    return {path: yaml.load(text, loader) for path, text in rendered.items() if path.endswith(".yaml")}


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@slow
@given(delivered())
def test_bytes_depend_on_the_file_alone_and_read_back(environment: Data) -> None:
    made = generate(plan_of(environment))
    rendered = files(made)
    assert rendered == files(generate(plan_of(json.loads(json.dumps(environment)))))
    assert all(text.endswith("\n") and "\r" not in text for text in rendered.values())
    bodies = read(rendered)
    for manifest in made:
        assert bodies[manifest_path(manifest)] == plain(delivery.body(manifest, made.delivery))
    for path, body in delivery.wrappers(made).items():
        assert bodies[path] == plain(body)
    folded = Counter(path.lower() for path in rendered)
    assert max(folded.values()) == 1, "a file system that ignores case keeps them apart"
    assert len(rendered) == len(made.manifests) + len(made.releases) + len(delivery.wrappers(made)) + 1
    index = json.loads(rendered[INDEX])
    listed = [row["path"] for row in [*index["objects"], *index["delivery"]]]
    assert Counter([*listed, INDEX]) == Counter(list(rendered))


@slow
@given(delivered())
def test_objects_are_the_same_for_every_engine(environment: Data) -> None:
    made, by_pulumi = (
        generate(replace(plan_of(written), text=""))  # which the queue's chart carries
        for written in (environment, {**environment, "delivery": {}})
    )
    assert (made.manifests, made.releases) == (by_pulumi.manifests, by_pulumi.releases)


@slow
@given(delivered())
def test_nothing_is_applied_before_what_it_needs(environment: Data) -> None:
    made = generate(plan_of(environment))
    dependencies = Dependencies(made)
    for manifest in made:
        for other in dependencies.of(manifest):
            if manifest.kind == "ValidatingAdmissionPolicyBinding" and other.kind == "ConfigMap":
                wanted = manifest.body["spec"].get("paramRef", {})
                if (wanted.get("namespace"), wanted.get("name")) != (other.namespace, other.name):
                    continue
            assert (other.wave.number, other.key) < (manifest.wave.number, manifest.key)


@slow
@given(delivered("argocd"))
def test_argo_cd_reads_every_object_and_may_apply_it(environment: Data) -> None:
    made = generate(plan_of(environment))
    bodies = {(body["kind"], body["metadata"]["name"]): body for body in delivery.wrappers(made).values()}
    application = bodies[("Application", "gpupool-random")]
    pattern = application["spec"]["source"]["directory"]["exclude"].strip("{}").split(",")
    seen = [path for path in files(made) if not any(fnmatchcase(path, part) for part in pattern)]
    apart = bodies.get(("Application", "gpupool-random-priorities"))
    if apart:
        included = apart["spec"]["source"]["directory"]["include"]
        seen += [path for path in files(made) if fnmatchcase(path, included)]
    assert Counter(seen) == Counter(manifest_path(manifest) for manifest in made)
    spec = bodies[("AppProject", application["spec"]["project"])]["spec"]
    spaces = {row["namespace"] for row in spec["destinations"]}
    assert application["spec"]["destination"]["namespace"] in spaces
    for manifest in made:
        scope = "namespaceResourceWhitelist" if manifest.namespace else "clusterResourceWhitelist"
        group = manifest.api_version.rpartition("/")[0]
        assert {"group": group, "kind": manifest.kind} in spec[scope]
        assert manifest.namespace is None or manifest.namespace in spaces


@slow
@given(delivered("flux"))
def test_flux_applies_every_object_once(environment: Data) -> None:
    made = generate(plan_of(environment))
    written = {path: text for path, text in files(made).items() if path.startswith("delivery/steps/")}
    rendered = read(written)
    assert applied(made, rendered) == Counter(manifest_path(manifest) for manifest in made)


def applied(made: Bundle, rendered: dict[str, Any]) -> Counter[str]:
    """Paths of objects of the environment that some Kustomization of Flux reaches, and how often."""
    found: Counter[str] = Counter()
    for body in delivery.wrappers(made).values():
        if body["apiVersion"].startswith("kustomize.toolkit"):
            folder = PurePosixPath(body["spec"]["path"]).relative_to(made.delivery.path)
            for name in rendered[str(folder / "kustomization.yaml")]["resources"]:
                up, _, path = name.rpartition("../")
                found += Counter([path] if up else [])
    return found
