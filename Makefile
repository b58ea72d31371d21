# What one does with a checkout. `make` lists the targets; nothing here does work of its own.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Containers often set it; without bytecode every process and every worker of the tests compiles all sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup go up down test test-fast test-all bench lint format lock schema kinds golden clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## install the Python side into .venv (under two minutes on a bare machine)

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	@echo "installing the Python side into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) can't make virtual environments; Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "done$(if $(filter setup,$(MAKECMDGOALS)),; next: make up)"

go: setup ## get a Go toolchain into .venv where none that is new enough is on PATH
	@cd tools/kubernetes && go version >/dev/null 2>&1 || { cd ../.. && echo "no Go that is new enough; installing one into $(VENV) ..." && $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/go/requirements.lock; }

# BUILD=1: download no program, build them all.
ifdef BUILD
up: export GPUPOOL_RELEASES := off
endif

# The job goes to the queue that is started here, whichever its port.
up: export GPUPOOL_URL := $(or $(GPUPOOL_URL),http://localhost:$(or $(GPUPOOL_PORT),8021))

# What the queue may do on the cluster is what its account may, also here.
LAUNCHER := system:serviceaccount:gpupool-system:gpupool-launcher

up: go ## start the local control plane and the job queue, apply environments/local.yaml, run jobs
	@gpupool local up $(if $(BUILD),--build)
	@gpupool up local --yes
	@gpupool local try
	@gpupool serve local --dev --echo http://example --background --kubeconfig "$${GPUPOOL_LOCAL_DIR:-.gpupool/local}/kubeconfig" --as $(LAUNCHER)
	@gpupool jobs submit --pool research-a100 --tenant vision --image python:3.13 --wait --at-most 15m -- python3 -c 'print("hello")'
	@echo
	@echo 'go on with:  eval "$$($(BIN)/gpupool local env)"  then  kubectl get nodepools,nodes,jobs -A'
	@echo 'change environments/local.yaml and run  make up  again; stop with  make down'
	@echo "signed in, once:  $$(gpupool serve local --link)"
	@echo "the job queue and its page:  http://localhost:$${GPUPOOL_PORT:-8021}"

down: setup ## stop the local control plane and the job queue; nothing is left
	@gpupool serve local --stop --purge
	@gpupool local down

# Cluster tests wait more than they work, so that there is a worker more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL := -n $(WORKERS)
# Areas of tests run whole where files have changed since this commit, and those of ALWAYS (tests/sampling.py).
SINCE ?= HEAD

test: go ## the tests, the real control plane included; where code is unchanged a share, another every day
	@GPUPOOL_TESTS="$$(python -m tests.sampling $(SINCE) $(ALWAYS))" pytest $(PARALLEL) $(PYTEST_ARGS)

test-fast: setup ## the tests that need no cluster
	@GPUPOOL_TESTS="$$(python -m tests.sampling $(SINCE) $(ALWAYS))" pytest --ignore tests/cluster -m "not cluster" $(PARALLEL) $(PYTEST_ARGS)

test-all: go ## every test that there is: each drift alone, every kill point (PYTEST_ARGS="tests/cluster/drift")
	@GPUPOOL_TESTS=all pytest $(PARALLEL) $(PYTEST_ARGS)

bench: go ## measure, and compare with tests/perf/expectations.yaml
	@python -m tests.perf

lint: setup ## formatting, lint, types, layers
	@ruff format --check .
	@ruff check .
	@mypy
	@mypy --config-file tests/mypy.ini
	@lint-imports

format: setup ## format the sources
	@ruff format .
	@ruff check --fix .

lock: setup ## pin requirements*.in again, with hashes
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/uv/requirements.lock
	@for file in requirements requirements-dev tools/go/requirements tools/uv/requirements examples/kubeflow-step/requirements \
    examples/spark-rapids/requirements; do \
	  uv pip compile --quiet --upgrade --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	    --custom-compile-command "make lock" $$file.in -o $$file.lock || exit 1; done

schema: setup ## write schemas of the environment file, GPU models, jobs and the chart's values, and gpupool/client/gpu_types.py
	@for of in environment catalog; do \
	  python -m gpupool.schema.published $$of > build-schema.tmp && mv build-schema.tmp gpupool/schema/$$of.schema.json || exit 1; done
	@python -m gpupool.schema.published values > build-schema.tmp && mv build-schema.tmp charts/gpu-scheduler/values.schema.json
	@python -m gpupool.queue.api.openapi job > build-schema.tmp && mv build-schema.tmp gpupool/schema/job.schema.json
	@python -m gpupool.schema.gpu_types > build-schema.tmp && mv build-schema.tmp gpupool/client/gpu_types.py

kinds: setup go ## write vapcheck/server/kinds/*.json from the local control plane's API server
	@GPUPOOL_LOCAL_APIS=all gpupool local up >/dev/null && python -m gpupool.local.kinds_from_cluster

GOLDEN ?= tests/golden tests/cluster/queue/test_chart.py tests/unit/cli/test_policy_outputs.py tests/unit/spec/test_wrong_environments.py

golden: schema ## write schemas and golden files again; read the difference before committing it
	@GPUPOOL_WRITE_GOLDEN=1 pytest --quiet $(GOLDEN)
	@git --no-pager diff --stat -- tests/golden docs/policy-table.md

clean: down ## remove everything that was made here, the cache of built programs excepted
	@rm -rf $(VENV) .gpupool build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
