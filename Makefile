# Treadle's commands. Everything is set up inside this checkout: .venv/ and build/.
# `make` alone says what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MVN := mvn -B -ntp -q -f java-shim/pom.xml
JAVA_SOURCES := $(shell find java-shim -name '*.java' -path '*/main/*' -o -name pom.xml -path 'java-shim/*')
KERNEL_SOURCES := $(shell find python/treadle -name '*.py')
# Whatever the caller has set: what one process has compiled the next ones read.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: prerequisites
prerequisites:
	@bash python/prerequisites.sh "$(PYTHON)" $(NEEDS)

# The stamp is newer than whatever decides what is installed.
build/.venv: pyproject.toml | prerequisites
	@echo "Setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@TREADLE_BUILD_JAR=skip $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dashboard,history,plot]' --group dev --group docs --group demo --group reproduce --group cpsat
	@mkdir -p build && touch $@

build/.jar: $(JAVA_SOURCES) | prerequisites
	@echo "Building the shim and the jars for Tez and Spark"
	@$(MVN) -pl shim,requirements,tez-plugin,spark-plugin -am package -DskipTests
	@mkdir -p build && touch $@

# So that no first start of a sidecar has to wait for the compiler.
build/.kernels: $(KERNEL_SOURCES) build/.venv
	@echo "Compiling the engine's kernels"
	@$(BIN)/treadle sidecar warm-up
	@touch $@

.PHONY: venv
venv: NEEDS = python
venv: build/.venv ## .venv alone, to simulate: without a JDK and Maven

.PHONY: build
build: ## set up .venv, build the jars, compile the engine's kernels
	@$(MAKE) --no-print-directory -j2 build/.venv build/.jar build/.kernels

.PHONY: demo
demo: build ## unmodified MapReduce, Tez and Spark jobs on a real cluster scheduled by Python
	@$(BIN)/treadle demo

.PHONY: lint
lint: build/.venv ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: shape
shape: build/.venv ## how large the packages are, beside their budgets (tests/size.toml); the functions of the inner loop
	@$(BIN)/python -m tests.shape
	@$(BIN)/python -m tests.reach

.PHONY: java-test
java-test: build/.jar ## the Java modules' tests
	@$(MVN) verify

# Where Hadoop's lines differ in source: the jar is compiled against 3.4.2, and fits all three.
.PHONY: java-lines
java-lines: build/.jar ## the shim compiles against Hadoop 3.3.6, 3.4.3 and 3.5.0
	@for line in 3.3.6 3.4.3 3.5.0; do $(MVN) -pl shim -am compile -Dhadoop.version=$$line -Dbuild.folder=target/hadoop-$$line || exit 1; done

.PHONY: upstream
upstream: ## the patches for Hadoop apply to its sources, compile, and pass their tests
	@java-shim/upstream/check

# Everything that needs no cluster: Maven's tests keep one core busy, and pytest has what is left of two. Each process
# begins with files of its own (worksteal), so that what tests of a file share is made once.
.PHONY: python-test
python-test: lint build/.kernels build/.jar
	@$(BIN)/pytest -n 2 --dist worksteal $(PYTEST_OPTIONS) -m 'not cluster and not slow'

# No `build` before it: the Java tests begin while the kernels are compiled.
.PHONY: fast-test
fast-test:
	@$(MAKE) --no-print-directory -j2 java-test python-test

.PHONY: test
test: ## every check that a change must pass
	@$(MAKE) --no-print-directory fast-test PYTEST_OPTIONS='--durations=15'
	@$(MAKE) --no-print-directory java-lines
	@# by file: tests of one file share its cluster, and each process has a shared one; they wait more than they work
	@$(BIN)/pytest -n 3 --dist loadfile --durations=15 -m 'cluster and not slow' tests/integration tests/benchmarks

.PHONY: test-all
test-all: ## the above, the long tests and Hadoop's own CapacityScheduler tests on our class
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "chromium is missing. On Debian: apt-get install chromium" >&2; exit 1; }
	@$(MAKE) --no-print-directory fast-test PYTEST_OPTIONS='--hypothesis-profile explore'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group browser
	@$(BIN)/pytest --hypothesis-profile explore -m 'cluster or slow'
	@$(MVN) -Dstock.selection=capacity verify

.PHONY: screenshots
screenshots: build ## the pictures of the dashboard in docs/pictures, of a busy mini cluster (Debian: chromium)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group browser
	@$(BIN)/python -m tests.screenshots docs/pictures

# Long runs that look for what no test has found: docs/reliability.md. PARTS and MINUTES choose a slice.
PARTS ?=
MINUTES ?= 10
.PHONY: campaign
campaign: build ## a slice of the campaign: make campaign PARTS=kills MINUTES=60
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group campaign
	@$(BIN)/python -m tests.campaign $(PARTS) --minutes $(MINUTES)

# Programs of other projects on a mini cluster: docs/reliability.md. PROGRAMS chooses some.
PROGRAMS ?=
.PHONY: real-programs
real-programs: build ## programs of other projects under Treadle, 25 minutes: make real-programs PROGRAMS="skein spark-4"
	@$(BIN)/python -m tests.real_programs $(if $(PROGRAMS),--only $(PROGRAMS))

LOADS ?=
.PHONY: bench-check
bench-check: build ## this checkout's speed against a recorded commit's, some minutes: make bench-check LOADS=engine
	@$(BIN)/python -m tests.speed $(if $(LOADS),--only $(LOADS))

# Without --quiet, which would let warnings pass. MkDocs' theme prints a notice about later releases of both, which is no warning about these pages.
.PHONY: docs
docs: build/.venv ## the docs as a site, in build/site; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

.PHONY: docs-test
docs-test: build/.venv ## the pages: command lines parse, links resolve, sentences, words and patterns within their bounds
	@$(BIN)/pytest -q -m 'not slow' tests/unit/test_docs.py tests/unit/test_docs_commands.py tests/unit/test_words.py

.PHONY: wheel
wheel: build/.venv build/.jar ## a wheel that carries the shim's jar, in dist/
	@TREADLE_BUILD_JAR=built $(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -w dist .

# The dashboard's, encrypted plans' and recordings' tests need these extras; of the laboratory nothing is there.
WHEEL_TESTS ?= engine property unit
.PHONY: wheel-test
wheel-test: wheel ## the product's tests on the wheel, in an environment without the laboratory
	@rm -rf build/wheel-env && $(PYTHON) -m venv build/wheel-env
	@build/wheel-env/bin/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@build/wheel-env/bin/python -m pip install -q --disable-pip-version-check \
		"$$(ls -t dist/treadle-*.whl | head -1)[dashboard,encrypt,history,plot,record]" --group dev
	@cd tests && ../build/wheel-env/bin/pytest -c ../pyproject.toml --rootdir .. -n 2 --dist worksteal $(PYTEST_OPTIONS) -m 'not cluster and not slow' $(WHEEL_TESTS)

# For the Python and the system that make it: name and contents say which. With kerberos it needs krb5's headers.
EXTRAS ?= dashboard,encrypt,history,record
.PHONY: wheelhouse
wheelhouse: wheel ## the wheel with all that it needs, for hosts without network, in dist/
	@rm -rf build/wheelhouse && mkdir -p build/wheelhouse
	@version=$$($(BIN)/python -c 'import treadle; print(treadle.__version__)'); \
	tag=$$($(BIN)/python -c 'import sys, sysconfig; print(f"cp{sys.version_info[0]}{sys.version_info[1]}-" + sysconfig.get_platform())'); \
	$(BIN)/python -m pip wheel -q --disable-pip-version-check -w build/wheelhouse "dist/treadle-$$version-py3-none-any.whl[$(EXTRAS)]"; \
	tar -C build -czf "dist/treadle-wheelhouse-$$version-$$tag.tar.gz" wheelhouse; \
	echo "dist/treadle-wheelhouse-$$version-$$tag.tar.gz"

.PHONY: image
image: wheel ## a Docker image for every role of a cluster (docs/minicluster.md)
	@docker/build.sh

PROFILE ?= simple
.PHONY: docker-test
docker-test: ## real jobs and faults on a cluster of containers (docs/minicluster.md): make docker-test PROFILE=simple
	@docker/test.sh --check $(PROFILE)
	@$(MAKE) --no-print-directory build wheel
	@docker/build.sh
	@PYTEST_OPTIONS='$(PYTEST_OPTIONS)' docker/test.sh $(PROFILE)

.PHONY: clean
clean: ## remove what was built here
	rm -rf $(VENV) build dist java-shim/target java-shim/*/target
