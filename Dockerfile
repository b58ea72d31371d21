# The image of the queue (charts/gpu-scheduler) and of `gpupool assert` in the cluster:
#
#   docker build -t registry.example.com/gpupool:0.2.0 .
#
# Packages are pinned with hashes (requirements-image.lock: what the extra `queue` needs; `make lock`), and the base by the
# digest of the tag's index, which has all architectures: Python 3.11.16, September 2026. It was read in public repositories,
# one of which compared it with Docker's own record (docker-library/repo-info). To renew it, with what Debian has repaired
# since:
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#
# A base that comes from a registry of yours: --build-arg BASE=registry.example.com/python@sha256:...
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE} AS build
WORKDIR /src
COPY requirements-image.lock requirements-dev.lock ./
# What builds the wheel is pinned as well, and does not go into the image.
RUN python -m venv /opt/gpupool \
 && /opt/gpupool/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements-image.lock \
 && sed -n '/^setuptools==/,/^    # via/p' requirements-dev.lock > build.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement build.lock
COPY LICENSE MANIFEST.in README.md pyproject.toml requirements.lock setup.py ./
COPY .github/workflows .github/workflows
COPY charts charts
COPY ci ci
COPY gpupool gpupool
COPY policies policies
COPY tools tools
COPY vapcheck vapcheck
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /src/dist . ./vapcheck ./gpupool/queue \
 && /opt/gpupool/bin/pip install --no-deps --no-cache-dir /src/dist/*.whl \
 && ln -s "$(cd /tmp && /opt/gpupool/bin/python -m gpupool.queue.store.migrate --config)" /opt/gpupool/alembic.ini

FROM ${BASE}
COPY --from=build /opt/gpupool /opt/gpupool
# Bytecode was compiled above, and nothing is written but below /tmp.
ENV PATH=/opt/gpupool/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    ALEMBIC_CONFIG=/opt/gpupool/alembic.ini
WORKDIR /etc/gpupool
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
# Kubernetes asks /healthz and /readyz itself.
HEALTHCHECK NONE
ENTRYPOINT ["gpupool"]
