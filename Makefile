# Every target prepares what it needs by itself: see scripts/bootstrap.py.
# Arguments pass through, for example: make test ARGS="-k cache -x"

PYTHON ?= python3
ARGS =
MINUTES = 10
IN_ENV = $(PYTHON) scripts/bootstrap.py
PYTEST = $(IN_ENV) --java python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# What Python has compiled is kept: each process of the tests would compile it again, with all asserts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo archive test long smoke fuzz kills minimum lakes matrix installs check bench wheel docs clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "make %-8s  %s\n", $$1, $$2 }'

demo: ## Join a year of flights beside Spark's own join, and draw what it costs
	$(IN_ENV) --extra examples --java python examples/flights.py $(ARGS)

archive: ## Compile the tests, and archive the classes that Spark loads: tests start in half the time
	$(IN_ENV) python -m pytest --collect-only -qq >/dev/null & \
	$(IN_ENV) --java python -m tests.class_archive; status=$$?; wait; exit $$status

test: ## Run the tests
	$(PYTEST) $(ARGS)

long: ## Run the tests that take minutes: all kinds and cases, kills, clusters, shells, examples; many draws
	$(PYTEST) -m "long or property" -p tests.wide_draws $(ARGS)

smoke: ## Run a test of each capability that needs neither a cluster nor Kafka nor Connect
	$(PYTEST) @tests/capabilities.txt $(ARGS)

fuzz: ## Run random joins (MINUTES=10; ARGS="--seed 7" for one of them)
	$(IN_ENV) --java python -m tests.fuzz --processes 2 --minutes $(MINUTES) $(ARGS)

kills: ## Kill processes that change a table, at each of their operations on files (a quarter of an hour)
	PYTHONPATH=. $(IN_ENV) --java python tests/kill_checks.py $(ARGS)

minimum: ## Try the oldest dependencies that are allowed, in an environment of their own
	$(PYTHON) scripts/matrix.py --quick

lakes: ## Run the tests with Delta and Iceberg; Maven fetches their jars (ARGS=--quick for a few)
	$(IN_ENV) --java python scripts/lakes.py $(ARGS)

matrix: ## Try every supported Python, Spark and Java that is here (ARGS="--list" to see them)
	$(IN_ENV) --java python scripts/matrix.py $(ARGS)

installs: ## Try the wheel in empty environments, with every Python and Spark (ARGS=--quick for one)
	$(IN_ENV) --java python scripts/installs.py $(ARGS)

check: ## Check style and types
	$(IN_ENV) ruff check
	$(IN_ENV) ruff format --check
	$(IN_ENV) mypy
	$(IN_ENV) mypy scripts

bench: ## Run the benchmarks (all of them, quick, then the report)
ifeq ($(strip $(ARGS)),)
	$(IN_ENV) --java python -m benchmarks all --quick; status=$$?; \
	$(IN_ENV) python -m benchmarks report --quick && exit $$status
else
	$(IN_ENV) --java python -m benchmarks $(ARGS)
endif

wheel: ## Build the wheel and the source distribution, with the jar of the JVM runtime, into dist
	$(IN_ENV) --java python -m hatchling build $(ARGS)

docs: ## Build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(IN_ENV) python -m mkdocs build --strict $(ARGS)

clean: ## Remove .venv, caches and build products
	rm -rf .venv/bsjoin-installed .venv
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
