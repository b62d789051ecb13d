# mooring: `make demo` shows it at work, `make test` passes all tests. Both set everything up first.

VENV := .venv
BIN := $(VENV)/bin
HISTORIES ?= 400
ROUNDS ?= 300

.PHONY: help setup demo test check unit world-coverage node strangers cluster cluster-tests simulate torture torture-quick bench-quick docs docs-check wheel clean

help:
	@echo "make demo         set up, then a tour of volumes in a private mount namespace"
	@echo "make test         set up, then lint, types, import contract, all tests, simulated histories"
	@echo "make strangers    build what others wrote and tests need (Go; minutes the first time, then cached)"
	@echo "make cluster      a Kubernetes control plane on the loopback, until Ctrl-C; NODES=\"a b\" adds nodes' kubeconfigs"
	@echo "make torture      kill the daemon hundreds of times on real mounts, and compare (about 15 minutes)"
	@echo "make bench-quick  measure against the same system calls in a plain loop (under two minutes)"
	@echo "make docs         write the generated parts of docs/ again"
	@echo "make wheel        build a wheel into dist/"

setup:
	@tools/setup $(VENV)

demo: setup
	@tools/demo $(BIN)

test: check unit world-coverage node cluster-tests simulate torture-quick

check: setup docs-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: setup
	$(BIN)/pytest -m "not node and not cluster"

# What decides must be tested to the last branch, by its own tests alone.
world-coverage: setup
	$(BIN)/coverage run --branch --source=mooring.world --data-file=.coverage.world -m pytest tests/world
	$(BIN)/coverage report --data-file=.coverage.world --fail-under=100 --skip-covered

node: setup
	@tools/setup-tests
	$(BIN)/pytest -m node

# Programs that others wrote, built from their Go modules: csi-sanity, Kubernetes' mock driver and control plane, the kubelet.
strangers: setup
	@tools/build-strangers

# A control plane to try things on: etcd, kube-apiserver and kube-controller-manager, gone when it is interrupted.
cluster: strangers
	@$(BIN)/python -m rig up $(foreach node,$(NODES),--node $(node))

cluster-tests: strangers
	@tools/setup-tests
	$(BIN)/pytest -m cluster

simulate: setup
	$(BIN)/mooring simulate --histories $(HISTORIES)

# Real kills: ROUNDS with faults drawn by chance, and one for each named point between two effects.
torture: setup
	@tools/setup-tests
	$(BIN)/python -m torture --rounds $(ROUNDS) --points

torture-quick: setup
	@tools/setup-tests
	$(BIN)/python -m torture --rounds 12 --seed 7

bench-quick: setup
	$(BIN)/python -m bench.quick

docs: setup
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/state_diagrams.py

docs-check: setup
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/state_diagrams.py --check

wheel: setup
	$(BIN)/python -m hatchling build -t wheel

clean:
	rm -rf $(VENV) .strangers dist src/mooring/stubs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
