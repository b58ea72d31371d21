# The image of the queue (charts/gpu-scheduler) and of `gpupool assert` in the cluster:
#
#   docker build -t registry.example.com/gpupool:0.1.0 .
#
# The base is pinned by tag, because a digest is the registry's to say: where builds must repeat, write it in as
# python:3.11-slim-bookworm@sha256:... Packages are pinned with hashes (requirements.lock; `make lock`).
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
# What builds the wheel is pinned as well, and does not go into the image.
RUN python -m venv /opt/gpupool \
 && /opt/gpupool/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock \
 && sed -n '/^setuptools==/,/^    # via/p' requirements-dev.lock > build.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement build.lock
COPY LICENSE MANIFEST.in README.md pyproject.toml requirements.in setup.py ./
COPY .github/workflows .github/workflows
COPY charts charts
COPY ci ci
COPY generators generators
COPY gpupool gpupool
COPY infra infra
COPY policies policies
COPY tools tools
COPY vapcheck vapcheck
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /src/dist . \
 && /opt/gpupool/bin/pip install --no-deps --no-cache-dir /src/dist/gpupool-*.whl \
 && ln -s "$(cd /tmp && /opt/gpupool/bin/python -m gpupool.queue.store.migrate --config)" /opt/gpupool/alembic.ini

FROM python:3.11-slim-bookworm
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
