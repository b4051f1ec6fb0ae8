# make demo    trains a small biLM on the prose that comes with Python (minutes)
# make test    lint, types, tests, examples and the README's commands; changes no file
# make clean   removes what the other two made
#
# Another Python (3.10 to 3.13): make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/installed

.DEFAULT_GOAL := test
.PHONY: demo test clean

# The stamp is written last, so a broken installation is begun anew.
$(INSTALLED): setup.py
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[dev]'
	touch $@

demo: $(INSTALLED)
	rm -rf demo
	TF_CPP_MIN_LOG_LEVEL=1 $(VENV)/bin/python usage_examples/demo.py demo

test: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile --doctest-modules bilm tests

clean:
	rm -rf $(VENV) demo build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
