# What can be done here. `make demo` and `make test` need nothing but Python 3.10 or later, make and gcc.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo unit screen test check format format-check lint types layers spelling test-lab incidents remedies causes phases truth proof healthy soak soak-simulated many bench docs findings-page man screenshots wheel release clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where this is set, each worker of the tests compiles all modules anew: a tenth of the time of `make unit`.
unexport PYTHONDONTWRITEBYTECODE

# The newest Python on PATH that the pins are made for and that can make an environment; another: `make PYTHON=python3.14 test`.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3.10 python3; do \
	$$python -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10)' >/dev/null 2>&1 && echo $$python && break; done)

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or later with venv on PATH (Debian: apt install python3-venv)." >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) -V): a minute the first time."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY) ## a real Ray cluster with simulated GPUs and some trouble, and the screen on it
	@$(BIN)/cockpit demo

unit: $(READY) ## the tests to run after every change, a minute on two cores: no process, no root, no Ray
	@$(BIN)/python -m pytest -rs -n logical --maxprocesses 8 --dist worksteal --lane unit

screen: $(READY) ## the tests that open the screen, to run after a change of it: a minute, and no process, no root, no Ray either
	@$(BIN)/python -m pytest -rs -n logical --maxprocesses 8 --dist worksteal --lane screen

test: unit screen ## the unit tests, those of the screen, then all others but the incidents; those that need root, an old Ray or a GPU say why they skip
	@$(BIN)/python -m pytest -rs -n 2 --dist loadgroup --lane real

incidents: $(READY) ## more incidents on real clusters, ten minutes: found with the right numbers, and ended by their remedies (root)
	@$(BIN)/python -m pytest -rs -m incident

remedies: $(READY) ## the commands of all remedies: those that can run here are typed on a real cluster, and their finding ends (root)
	@$(BIN)/python -m pytest -rs -m remedy

causes: $(READY) ## every known error as a real job on a real Ray, and failures made with real parts: a quarter of an hour (root)
	@$(BIN)/python -m pytest -rs -m causes tests/causes

phases: $(READY) ## phases of four jobs of 200 steps on a real Ray compared with what their actors did, and 40 hangs: an hour (root)
	@COCKPIT_STEPS=200 COCKPIT_HANGS=40 $(BIN)/python -m pytest -rs -s tests/lab/test_phases.py

truth: $(READY) ## budgets compared with the frameworks' own parsers and group builders, in environments of their own (a package index)
	@$(BIN)/python -m pytest -rs -m truth

check: $(READY) format-check lint types layers spelling test ## all that CI checks

format: $(READY) ## write the code the way `check` wants it
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

format-check: $(READY)
	@$(BIN)/ruff format --check .

lint: $(READY) ## ruff, and whether every test can be imported
	@$(BIN)/ruff check .
	@collected=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$collected" | tail -20; exit 1; }

types: $(READY) ## mypy --strict
	@$(BIN)/mypy

layers: $(READY) ## a module imports only from the layers below it
	@$(BIN)/lint-imports

spelling: $(READY) ## codespell
	@$(BIN)/codespell

test-lab: $(READY) ## the tests on virtual hosts alone (root)
	@$(BIN)/python -m pytest -rs -m lab

proof: $(READY) ## 10,000 random forests of real processes, 200 of them beside a real Ray: every orphan ended, nothing else signalled (root)
	@COCKPIT_ROUNDS=9800 COCKPIT_REAL_ROUNDS=200 $(BIN)/python -m pytest -rs -s tests/probe/actions/test_forests.py

healthy: $(READY) ## ten minutes of a healthy run on two hosts: nothing above info is found (root)
	@$(BIN)/python -m tests.lab.healthy --minutes 10

soak: $(READY) ## whether the screen grows: an hour beside a Ray in which jobs come and go (root); MINUTES=60
	@$(BIN)/python -m tests.lab.soak --minutes $(or $(MINUTES),60)

soak-simulated: $(READY) ## the same for a simulated day on a synthetic cluster: a quarter of an hour
	@$(BIN)/python -m tests.lab.soak --simulated

many: $(READY) ## what commands take on 24 hosts at once, some of them in trouble (root); HOSTS=24
	@$(BIN)/python -m tests.lab.many --hosts $(or $(HOSTS),24)

bench: $(READY) ## one table: cockpit beside `ray status` and nvitop, on a cluster of 1,000 nodes, and ten of them at once
	@$(BIN)/python -m bench.run

# Not with --quiet: what is not said isn't counted, and a lost link would pass.
docs: $(VENV)/.docs ## the documentation in build/docs: strict, its links checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean
	@echo "build/docs/index.html; with its search: $(BIN)/python -m http.server -d build/docs"

$(VENV)/.docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

findings-page: $(READY) ## docs/findings.md, from the tests of the findings
	@$(BIN)/python -m manual.findings

man: $(READY) ## man/ray-cockpit.1, from the commands
	@$(BIN)/python -m manual.man_page

screenshots: $(READY) ## the pictures in screenshots/, from the demo cluster
	@$(BIN)/python -m bench.screenshots

$(VENV)/.release: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

wheel: $(VENV)/.release ## the package, in dist/
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@ls dist/*

# Ten minutes: most of it is what each Python needs of Ray. Other Pythons than those on PATH: `make release PYTHONS="python3.13 /opt/python3.14/bin/python3"`.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13 python3.14

release: wheel ## the package, checked and tried in a fresh environment of each Python on PATH, with the demo; nothing is uploaded
	@$(BIN)/python -m twine check --strict dist/*
	@for python in $(PYTHONS); do \
		$$python -c 'import venv, ensurepip' >/dev/null 2>&1 || { echo "$$python: not here, not tried"; continue; }; \
		packaging/try_wheel.sh $$python dist/*.whl || exit 1; \
	done

clean: ## remove what tools leave behind; the environment stays (rm -r .venv)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
