# attnlab. `make lab` opens the course, `make test` checks everything; both set up .venv when it is not there.
.DEFAULT_GOAL := help
.PHONY: help lab reset test test-all notebooks book bench model clean setup

PORT ?=
ARGS ?=
LESSON ?=
MARKS :=
NOTEBOOKS := build/notebooks
TESTS = $(NOTEBOOKS) tests
NBVAL := --nbval --nbval-cell-timeout 600 --nbval-kernel-startup-timeout 300 --nbval-sanitize-with notebooks/nbval.cfg
PY := .venv/bin/python
# A worker that ends isn't replaced: the next would run what ended it, again and again.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Jupyter's own times between pings make its web server warn in the first minute, and on one machine they find nothing.
NO_PINGS := --ServerApp.tornado_settings="{'ws_ping_interval': 0}"
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Nothing from outside may change which modules, kernels or plot back ends are used.
unexport PYTHONHOME PYTHONPATH JUPYTER_PATH MPLBACKEND
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONHASHSEED := 0
export PYTHON PIP_ARGS NEED_MB

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo "Options: PYTHON=python3.12 and PIP_ARGS=\"--extra-index-url ...\" at the first call; ARGS=\"...\" is passed on."

setup: ## make or update .venv (the other targets do this by themselves)
	@bash .ci/setup

lab: setup ## open the course in JupyterLab; PORT=9999, ARGS=--no-browser
	@$(PY) notebooks/work.py fill
	@echo "JupyterLab starts. To stop it: Ctrl-C here, twice."
	@$(PY) -m jupyterlab --Application.log_level=WARN --KernelManager.transport_encryption=auto \
	  --ServerApp.root_dir=$(CURDIR) $(NO_PINGS) $(AS_ROOT) $(if $(PORT),--port=$(PORT)) $(ARGS) work/00_start_here.ipynb

reset: setup ## put one lesson back and keep a backup of yours: LESSON=01
	@$(PY) notebooks/work.py reset $(LESSON)

test: export ATTNLAB_ROUNDS := 1
test: export OMP_NUM_THREADS := 1
test: setup ## check everything: lint, tests, notebooks
	$(PY) -m ruff check .
	$(PY) notebooks/build.py --check
	$(PY) -m tests.support.notebooks build/notebooks
	$(PY) -m pytest $(WORKERS) --durations 20 $(MARKS) $(NBVAL) \
	  $(TESTS) $(ARGS)

test-all: MARKS := -m ""
test-all: NOTEBOOKS := notebooks
test-all: test ## the same with all combinations of options, and every notebook whole

notebooks: setup ## rebuild the notebooks of changed lessons; LESSON=01, ARGS=--force
	@$(PY) notebooks/build.py $(LESSON) $(ARGS)

book: setup ## build the site of the course: build/book/index.html; ARGS=--pdf: a PDF, too
	@$(PY) notebooks/book/build.py $(ARGS)

bench: setup ## compare the algorithms side by side
	@$(PY) -m attnlab_course.bench $(ARGS)

model: setup ## train the small language model anew, weights into the package: under two hours; ARGS="base"
	@$(PY) -m attnlab_course.model.train $(ARGS)
	@$(PY) -m attnlab_course.lessons.lesson15.uptraining
	@$(PY) -m attnlab_course.lessons.lesson16.sinks
	@$(PY) -m attnlab_course.lessons.lesson18.recall
	@$(PY) -m attnlab_course.lessons.lesson25.overwriting
	@$(PY) -m attnlab_course.lessons.lesson23.longrange
	@$(PY) -m attnlab_course.lessons.lesson18.conversion
	@$(PY) -m attnlab_course.lessons.lesson24.indexer
	@$(PY) -m attnlab_course.lessons.lesson24.cuts

clean: ## remove caches; never work/ or .venv
	@find . \( -path ./.git -o -path ./.venv -o -path ./work \) -prune -o \
	  \( -name __pycache__ -o -name .ipynb_checkpoints -o -name '*.egg-info' \) -prune -exec rm -rf {} +
	@rm -rf .pytest_cache .ruff_cache .hypothesis build notebooks/build dist
