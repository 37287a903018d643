# The two commands of a newcomer are `make run` and `make test`; both set up .venv on the first call.
# PYTHON=python3.12 chooses the interpreter and sets up .venv-3.12; PYTEST_ARGS and BENCH_ARGS are passed on.
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test check format lint types cover bench soak docs schema clean

PYTHON ?=
VENV := .venv$(if $(PYTHON),-$(firstword $(shell tools/find-python $(PYTHON))))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
# Most tests wait for something: more of them than there are cores can do that at once.
# tests/order.py has the order of the modules.
WORKERS := -n 4 --dist loadscope --no-loadscope-reorder
CHECKED := $(wildcard tests benchmarks docs/examples tools/*.py)
ROOMS := core store lifecycle tui cli
# With it pytest would compile every test module anew in every worker.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make run     run a small job, show what it used, and open the console"
	@echo "make test    run the tests"
	@echo "make check   everything that has to pass: format, ruff, mypy, tests"
	@echo "make format  format the code    make lint   ruff only    make types  mypy only"
	@echo "make cover   tests with coverage; core, store and lifecycle have to reach 90 %"
	@echo "make bench   measure jobtop itself     make soak  the long tests"
	@echo "make docs    write the generated parts of docs/ anew"
	@echo "make schema  write store/newest_schema.py anew, after adding a migration or a metric     make clean"

$(BIN)/python:
	@tools/make-venv $(VENV) $(PYTHON)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@$(PIP) -e '.[dev]'
	@$(BIN)/python tools/light_finder.py
	@touch $@

run: $(VENV)/.installed
	@mkdir -p build
	@echo '$$ jobtop run --no-ui --name hello-jobtop -- python docs/examples/lively.py'
	@$(BIN)/jobtop run --no-ui --name hello-jobtop --record build/hello-jobtop.json -- $(BIN)/python docs/examples/lively.py
	@id=$$(sed -n 's/^  "id": "\(.\{8\}\).*/\1/p' build/hello-jobtop.json); \
		printf '\n$$ jobtop show %s\n' $$id; $(BIN)/jobtop show $$id
	@printf '\n$$ jobtop history\n'; $(BIN)/jobtop history
	@if [ -t 0 ] && [ -t 1 ]; then \
		printf '\n$$ jobtop\n'; sleep 2; $(BIN)/jobtop; else printf '\nOn a terminal, jobtop alone opens the console.\n'; fi
	@command -v jobtop > /dev/null || printf '\njobtop is in %s: type %s/jobtop, or install it (pipx install .).\n' $(BIN) $(BIN)

test: $(VENV)/.installed
	$(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

check: lint types test

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed
	@rm -rf build/types && mkdir -p build/types/jobtop
	@cd build/types/jobtop && for name in $(notdir $(wildcard jobtop/*.py)) py.typed; do ln -s ../../../jobtop/$$name; done
	@cd build/types/jobtop && for room in $(ROOMS); do ln -s ../../../$$room; done
	$(BIN)/mypy build/types/jobtop $(CHECKED)

cover: $(VENV)/.installed
	$(BIN)/python -m pytest --cov --cov-report= $(PYTEST_ARGS)
	$(BIN)/coverage report
	$(BIN)/coverage report --include='core/*,store/*,lifecycle/*' --fail-under=90

docs: $(VENV)/.installed
	$(BIN)/python tools/docs.py

schema: $(VENV)/.installed
	$(BIN)/python tools/newest_schema.py

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

soak: $(VENV)/.installed
	FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} $(BIN)/python -m pytest -m soak --timeout=0 $(PYTEST_ARGS)

clean:
	rm -rf .venv .venv-* build dist *.egg-info .coverage .coverage.* htmlcov .mypy_cache .pytest_cache .ruff_cache
	find jobtop $(ROOMS) tests docs tools -name __pycache__ -prune -exec rm -rf {} +
