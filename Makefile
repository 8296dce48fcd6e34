# Needs Python 3.11 to 3.13, make and git. Another interpreter: make venv PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
STAMP := $(VENV)/.installed

.PHONY: venv demo test check fix test-gpu clean

venv: $(STAMP)

# torch goes first, alone and pinned, then triton, so that the resolver never has a reason to fetch another build of them.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else "error: Python 3.11 to 3.13 is needed, this is %d.%d (set PYTHON=python3.12)" % v)'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt triton
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: venv
	$(VENV)/bin/autotriton optimize examples/fused_mlp.py

test: venv
	VENV=$(VENV) scripts/test

check: venv
	VENV=$(VENV) scripts/check

fix: venv
	VENV=$(VENV) scripts/fix

test-gpu: venv
	VENV=$(VENV) scripts/test-gpu

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
