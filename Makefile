# Each target sets up what it needs by itself, from a fresh clone on: the Python environment in .venv, the AWS CDK's
# command line in node_modules. Nothing outside this folder is changed. `make help` lists the targets.

SHELL := /bin/sh
.SUFFIXES:
.NOTPARALLEL:
.DEFAULT_GOAL := help

BIN := .venv/bin
# The four locks of the one environment. The sandbox's AWS has a fifth, for a Python of its own.
LOCKS := layers/dependencies/requirements.txt stacks/requirements.txt cli/requirements.txt tests/requirements.txt
SANDBOX_LOCK := cli/holdfast_cli/sandbox/requirements.txt
PYTHON_LOCKED := .venv/.locked
PYTHON_READY := .venv/.ready
NODE_READY := node_modules/.ready
SANDBOX_READY := build/.sandbox-ready

# The packages that decide things. They are pure, so there is no excuse for a line that no test reaches.
CAPABILITIES := interruption alerts karpenter render
COVERAGE_FLOOR := 95

# Two workers: what two cores carry, and jsii starts one Node process in each.
PYTEST := $(BIN)/pytest --cov --cov-append --cov-report=
PARALLEL := -n 2

# The CDK's command line reports to its vendor unless told not to; synth must work without credentials or a network.
export CDK_DISABLE_CLI_TELEMETRY := true
# Node 20 works; that its makers have moved on is said by the prerequisites, once.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Without bytecode on disk every start of the CDK app compiles its library again, for six seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test lint unit adapters stacks sandbox coverage bench burst reports simulate cluster-build cluster-test synth lock clean prerequisites

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(PYTHON_READY) $(NODE_READY) $(SANDBOX_READY) ## install everything into this folder

demo: setup ## play a day of interruptions in the embedded AWS: no account, no cluster
	$(BIN)/holdfast sandbox demo

test: lint unit adapters stacks sandbox coverage ## lint, then the tests layer by layer, then coverage

lint: $(PYTHON_READY) ## formatting, lint rules, types
	@echo "== Lint"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: $(PYTHON_READY) ## rules and decisions: no input, no output, no clock
	@echo "== Tests: unit"
	@rm -f .coverage .coverage.*
	$(PYTEST) $(PARALLEL) tests/unit tests/test_architecture.py

adapters: $(PYTHON_READY) ## what speaks to AWS, Kubernetes and Slack, against servers on loopback
	@echo "== Tests: adapters"
	$(PYTEST) $(PARALLEL) tests/adapters

stacks: $(PYTHON_READY) $(NODE_READY) ## templates, permissions, layers
	@echo "== Tests: stacks"
	$(PYTEST) $(PARALLEL) tests/stacks

sandbox: setup ## the deployed product in the embedded AWS
	@echo "== Tests: sandbox"
	$(PYTEST) tests/sandbox

coverage: ## the figures of the last run, and the floor for the packages that decide
	@echo "== Coverage"
	@$(BIN)/coverage report
	@echo "== Coverage of $(CAPABILITIES) together: at least $(COVERAGE_FLOOR) %"
	@$(BIN)/coverage report --fail-under=$(COVERAGE_FLOOR) \
		--include="$$(printf '*/holdfast/%s/*,' $(CAPABILITIES))"

bench: $(PYTHON_READY) ## measure the speed budgets; writes build/bench.json
	$(BIN)/python -m tests.bench

burst: $(PYTHON_READY) ## 30,000 messages, a fifth of them twice, in any order, through ingest to the verdicts
	$(BIN)/python -m tests.burst --events 30000

reports: $(PYTHON_READY) $(NODE_READY) ## run the test of every public report; report, test and result in a table
	$(BIN)/python -m tests.reports

simulate: $(PYTHON_READY) ## play 500 worlds made from seeds; truth against verdict in a table
	$(BIN)/python -m tests.simulation --seeds 500

cluster-build: $(PYTHON_READY) ## build etcd, kube-apiserver and what else a real cluster is made of, into the user's cache
	$(BIN)/python -m holdfast_cli.sandbox.cluster.build

cluster-test: $(PYTHON_READY) ## hold the contract of the sandbox's Kubernetes API against a real one
	@echo "== Tests: cluster"
	$(BIN)/pytest tests/cluster

synth: $(PYTHON_READY) $(NODE_READY) ## the CloudFormation templates, into cdk.out; needs no account
	AWS_EC2_METADATA_DISABLED=true node_modules/.bin/cdk synth --quiet --no-notices
	@ls cdk.out/*.template.json

lock: $(PYTHON_READY) ## pin the newest allowed versions, with hashes, after a change of a requirements.in
	@for lock in $(LOCKS) $(SANDBOX_LOCK); do \
		echo "== $$lock"; \
		$(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.13 \
			"$${lock%.txt}.in" -o "$$lock" || exit 1; \
	done
	npm install --package-lock-only --no-audit --no-fund

clean: ## remove everything that was built, the environments too
	rm -rf .venv node_modules build cdk.out .sandbox .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find app.py cli lambdas layers stacks tests -name __pycache__ -type d -prune -exec rm -rf {} +

prerequisites:
	@sh cli/setup/prerequisites.sh

# A changed lock makes a new environment: a package that is no longer listed must not stay importable.
$(PYTHON_LOCKED): $(LOCKS) .python-version | prerequisites
	@echo "== Python environment in .venv (about two minutes the first time)"
	@"$$(sh cli/setup/prerequisites.sh --python)" -m venv --clear .venv
	@for lock in $(LOCKS); do \
		echo "   installing $$lock"; \
		$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r "$$lock" || exit 1; \
	done
	@touch $@

$(PYTHON_READY): $(PYTHON_LOCKED) pyproject.toml
	@echo "   installing the holdfast command"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@test -x $(BIN)/holdfast
	@touch $@

$(NODE_READY): package.json package-lock.json | prerequisites
	@echo "== AWS CDK command line in node_modules"
	@npm ci --no-audit --no-fund
	@touch $@

# What the first start of the sandbox would else do while somebody waits for it. Both are kept and known by their content.
$(SANDBOX_READY): $(PYTHON_READY) $(SANDBOX_LOCK) layers/dependencies/requirements.txt layers/dependencies/prune.txt
	@echo "== The sandbox's AWS, and the functions' dependency layer for this machine"
	@$(BIN)/python -c 'from holdfast_cli.sandbox import ministack_environment as aws; \
		aws.ensure(aws.default_environment(), progress=print)'
	@$(BIN)/python -c 'from stacks import bundling; bundling.built_dependencies(bundling.host_architecture())'
	@mkdir -p $(@D) && touch $@
