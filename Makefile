# mooring: `make demo` shows it at work, `make test` passes all tests. Both set everything up first.

VENV := .venv
BIN := $(VENV)/bin
HISTORIES ?= 400
ROUNDS ?= 300
# As an installation leaves it, also where PYTHONDONTWRITEBYTECODE is set: starts and memory are measured.
COMPILE := $(BIN)/python -m compileall -q src/mooring

.PHONY: help setup demo test check unit world-coverage node strangers cluster cluster-tests compare simulate torture torture-quick bench bench-quick docs docs-check wheel clean

help:
	@echo "make demo         set up, then a tour of volumes in a private mount namespace"
	@echo "make test         set up, then lint, types, import contract, all tests, simulated histories"
	@echo "make strangers    build what others wrote and tests need (Go; minutes the first time, then cached)"
	@echo "make cluster      a Kubernetes control plane on the loopback, until Ctrl-C; NODES=\"a b\" adds nodes' kubeconfigs"
	@echo "make compare      the real kubelet and mooring on some 300 manifests: trees, mounts and causes (under a minute)"
	@echo "make torture      kill the daemon hundreds of times on real mounts, and compare (about 15 minutes)"
	@echo "make bench        measure against the kubelet's volume manager and against bare system calls (about a quarter of an hour)"
	@echo "make bench-quick  measure against the same system calls in a plain loop (under two minutes)"
	@echo "make docs         write the generated parts of docs/ again"
	@echo "make wheel        build a wheel into dist/"

setup:
	@tools/setup $(VENV)
	@$(BIN)/python -m compileall -q src  # a start takes 0.2 s longer where this is left to be done in memory

demo: setup
	@tools/demo $(BIN)

test: check unit world-coverage node cluster-tests simulate torture-quick

check: setup docs-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: setup
	$(BIN)/pytest -m "not node and not cluster" -n auto --dist worksteal

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

# The kubelet's own volume manager and mooring, on the manifests of bench/compare/corpus; docs/differences.md says what may differ.
compare: setup
	@tools/build-strangers kubelet-peer
	@tools/setup-tests
	@$(BIN)/python -m bench.compare

simulate: setup
	$(BIN)/mooring simulate --histories $(HISTORIES)

# Real kills: ROUNDS with faults drawn by chance, and one for each named point between two effects.
torture: setup
	@tools/setup-tests
	$(BIN)/python -m torture --rounds $(ROUNDS) --points

torture-quick: setup
	@tools/setup-tests
	$(BIN)/python -m torture --rounds 12 --seed 7

# The kubelet's own volume manager is built with Go; strace, where it can be had, counts system calls.
bench: setup
	@tools/build-strangers kubelet-peer
	@tools/setup-tests
	@$(COMPILE)
	$(BIN)/python -m bench.side_by_side $(BENCH)

bench-quick: setup
	@$(COMPILE)
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
