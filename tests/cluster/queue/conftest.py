"""The environment of these tests on the shared control plane, and the queue's processes in front of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from gpupool.client import Client
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.store.embedded import Embedded
from tests.cluster.kube import Kube
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.served import Queue, serving
from tests.queue.api.conftest import api
from tests.queue.conftest import database, database_url, postgres

__all__ = ["api", "database", "database_url", "postgres"]

ENVIRONMENT = Path(__file__).with_name("queue.yaml")


@contextlib.contextmanager
def made_database(postgres: Embedded, name: str, template: str) -> Iterator[str]:
    """The URL of a copy of `template`, which is gone afterwards."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def queue_database(postgres: Embedded, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with the queue's tables for a whole module."""
    with made_database(postgres, request.module.__name__.rpartition(".")[2], "migrated") as url:
        yield url


@pytest.fixture(scope="module")
def queue(
    kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Queue]:
    """The queue of `queue.yaml`, ready, with every role in one process."""
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    with serving(kube, control_plane, spec, queue_database, tmp_path_factory.mktemp("queue")) as made:
        yield made


@pytest.fixture(scope="module")
def observer(queue: Queue) -> Iterator[Observer]:
    """What the API server says of pods and Jobs from here on."""
    with Observer(queue.plane.kubeconfig) as watching:
        yield watching


@pytest.fixture(scope="module")
def vision(queue: Queue) -> Iterator[Client]:
    """The tenant that most jobs are of."""
    with queue.client() as client:
        yield client
