# reput: `make` alone lists the targets. Each one sets up what it needs first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
export VENV
PYTHON := $(VENV)/bin/python
# Set-up writes the Java that it found or installed, so that Spark uses that one.
WITH_JAVA = JAVA_HOME="$$(cat $(VENV)/java-home)"
PYTEST = $(WITH_JAVA) $(PYTHON) -m pytest
# Four processes, on two cores: the tests of a Spark session in one, those beside RocketMQ in another, all others in the
# others. Both of the first often wait. tests/conftest.py has the order.
PYTEST_WORKERS ?= 4
# Tests make and sync thousands of small files. In memory that takes no time; `make nightly` has them on the disk.
MEMORY := /dev/shm
IN_MEMORY = env $$(scripts/has_room.sh $(MEMORY) 4 && echo TMPDIR=$(MEMORY))
SOURCES := src tests bench demo examples scripts

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## make .venv with the pinned packages, and see to Java 17 or later, compile the kernels
	@scripts/setup.sh

.PHONY: demo
demo: setup  ## rebuild a store that RocketMQ wrote and compare; N=4000000 for a large one, KEEP=PATH keeps it
	@$(WITH_JAVA) $(PYTHON) -m demo $(N) $(if $(KEEP),--keep "$(KEEP)")

.PHONY: example
example: setup  ## from a broker's files to a plot with Spark; STORE=PATH takes a store of yours
	@$(WITH_JAVA) $(PYTHON) examples/broker_to_plot.py $(if $(STORE),"$(STORE)")

.PHONY: test
test: setup lint pytest  ## style, types and all tests but for cases that take long

.PHONY: pytest
pytest:
	$(IN_MEMORY) $(PYTEST) -n $(PYTEST_WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: test-python
test-python:  ## all tests on another Python: VERSION=3.12 (needs python3.12 on the PATH; makes .venv-3.12)
	@test -n "$(VERSION)" || { echo "name the Python to test with: make test-python VERSION=3.12" >&2; exit 2; }
	@REPUT_PYTHON=python$(VERSION) VENV=.venv-$(VERSION) scripts/setup.sh
	$(MAKE) --no-print-directory pytest VENV=.venv-$(VERSION)

.PHONY: test-install
test-install: setup  ## install the wheel without Spark into a folder of its own, put and get a message there
	@scripts/test_install.sh $(PYTHON)

.PHONY: fuzz
fuzz: setup  ## the property tests on new random examples, ROUNDS=10 times over
	rounds=$$(seq $(or $(ROUNDS),10)) && for round in $$rounds; do $(PYTEST) -n $(PYTEST_WORKERS) -q -m hypothesis --hypothesis-profile=random || exit 1; done
	@echo "$(or $(ROUNDS),10) rounds of the property tests, each with new examples, and none fails"

.PHONY: fuzz-decoders
fuzz-decoders: setup  ## fuzz every decoder, guided by coverage, and write the table of docs/reliability.md: SECONDS=600 ONLY=frame; INPUT=... repeats a failure
	$(PYTHON) -c "import atheris" 2>/dev/null || $(PYTHON) -m pip install -q -c constraints.txt atheris
	PYTHONPATH=tests $(PYTHON) -m support.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ONLY),--only "$(ONLY)") $(if $(INPUT),--input "$(INPUT)")

.PHONY: fuzz-kernels
fuzz-kernels: setup  ## compiled decoders on very many inputs between guard pages, and the table of docs/reliability.md: INPUTS=1000000000 SEED=7 ONLY=log ROUND=5
	PYTHONPATH=tests $(PYTHON) -m support.fuzz.compiled $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)") $(if $(ROUND),--round $(ROUND))

.PHONY: nightly
nightly: setup  ## all that takes long, one after the other, and the table of it in docs/reliability.md: hours; STEP=simulate for one
	PYTHONPATH=tests $(PYTHON) -m support.nightly $(if $(STEP),--only $(STEP))

.PHONY: nightly-tests
nightly-tests: setup  ## all tests on the disk, with long random searches
	REPUT_SEARCH=long $(PYTEST) -n $(PYTEST_WORKERS) --dist loadgroup --no-loadscope-reorder -o faulthandler_timeout=0

.PHONY: test-golden
test-golden: setup  ## only the comparisons with RocketMQ's own stores (REPUT_GOLDEN=folder, REPUT_GOLDEN_55=folder for others)
	REPUT_SEARCH=long $(PYTEST) -m golden

.PHONY: golden-stores
golden-stores: setup  ## have RocketMQ write other golden stores: OUT=folder SEED=7 MESSAGES=5000, SET=5.5 for those of a broker (needs Maven)
	@test -n "$(OUT)" || { echo "name the folder: make golden-stores OUT=folder SEED=7 MESSAGES=5000 SET=5.5" >&2; exit 2; }
	PYTHONPATH=tests $(PYTHON) -m peer.$(if $(filter 5.5,$(SET)),golden_broker_stores,golden_stores) "$(OUT)" $(if $(SEED),--seed $(SEED)) $(if $(MESSAGES),--messages $(MESSAGES))

.PHONY: test-peer
test-peer: setup  ## the tests that run RocketMQ's own code, also those that `make test` leaves out for their time (needs Maven)
	REPUT_SEARCH=long $(PYTEST) -m peer

.PHONY: test-spark
test-spark: setup  ## the tests that start Spark, also clusters, Spark Connect and spark-submit, which `make test` leaves out for their time
	REPUT_SEARCH=long $(WITH_JAVA) $(IN_MEMORY) $(PYTHON) -m pytest -m spark

.PHONY: test-clients
test-clients: setup  ## RocketMQ's Java and Go clients and mqadmin with its broker and with `reput serve`, the clients of version 5 (Java, Python, Go, Node, Rust) with its proxy and with `reput serve`: some minutes (needs Maven)
	$(PYTEST) -m clients tests/broker/clients

.PHONY: power-cuts
power-cuts: setup  ## cut the power at every call: STATES=100000 SEED=7 SCENARIO=put; one state again: CALL=31 CHOICE=5, after a fault with FAULT=failing_sync (or full_from) AT=3, while a sector is read wrong with MISREAD=9
	$(IN_MEMORY) PYTHONPATH=tests $(PYTHON) -m support.power $(if $(STATES),--states $(STATES)) $(if $(SEED),--seed $(SEED)) $(if $(SCENARIO),--scenario "$(SCENARIO)") $(if $(CALL),--call $(CALL)) $(if $(CHOICE),--choice $(CHOICE)) $(if $(FAULT),--fault $(FAULT)) $(if $(AT),--at $(AT)) $(if $(MISREAD),--misread $(MISREAD))

.PHONY: simulate
simulate: setup  ## lives of stores whose clock, steps and faults a seed decides: SEEDS=10000 FIRST=0; a failure names its seed
	$(IN_MEMORY) PYTHONPATH=tests $(PYTHON) -m support.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST))

.PHONY: soak
soak: setup  ## a writer, readers, a follower, deletions and rebuilds on one store for long, in slow and odd conditions: MINUTES=30 or HOURS=8, SEED=7 TURN=30 KEEP=folder
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) -m support.soak $(if $(HOURS),--hours $(HOURS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(TURN),--turn $(TURN)) $(if $(KEEP),--keep "$(KEEP)")

.PHONY: damage
damage: setup  ## damage every class of field of some stores, and write docs/damage.md: FLIPS=50 CUTS=10 MISREADS=50, or STORE=crash SEED=7 for any one
	$(IN_MEMORY) PYTHONPATH=tests $(PYTHON) -m support.damage $(if $(STORE),--store "$(STORE)") $(if $(SEED),--seed $(SEED)) $(if $(FLIPS),--flips $(FLIPS)) $(if $(CUTS),--cuts $(CUTS)) $(if $(MISREADS),--misreads $(MISREADS))

.PHONY: mutations
mutations: setup  ## break promises in a copy of the source, see the tests find each, and write the table of docs/reliability.md; ONLY=stitch for some
	$(WITH_JAVA) $(IN_MEMORY) PYTHONPATH=tests $(PYTHON) -m support.mutations $(if $(ONLY),--only "$(ONLY)")

.PHONY: peer-rounds
peer-rounds: setup  ## reput and RocketMQ write one store alternately, killed at random: ROUNDS=200 SEED=7 KIND=double PEER=broker (needs Maven)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) -m peer.rounds $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(if $(KIND),--kind $(KIND)) $(if $(PEER),--peer $(PEER))

.PHONY: serve-rounds
serve-rounds: setup  ## kill `reput serve` at random while RocketMQ's clients work with it: ROUNDS=200 SEED=7 FLUSH=SYNC_FLUSH CLIENTS=java (needs Maven and Go)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) -m broker.clients.rounds $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(if $(FLUSH),--flush $(FLUSH)) $(if $(CLIENTS),--clients $(CLIENTS))

COVERED := tests/formats tests/kernels tests/index tests/queue tests/store tests/broker tests/faults/test_swap.py tests/faults/test_owners.py tests/cli/test_dry_run.py

.PHONY: coverage
coverage: setup  ## branches of formats, of the kernels' specification, of opening, recovery and the swap that no test takes: a quarter of an hour
	mkdir -p build && $(PYTHON) -m coverage erase
	$(IN_MEMORY) $(WITH_JAVA) $(PYTHON) -m coverage run -m pytest -q $(COVERED)
	$(PYTHON) -m coverage combine -q && $(PYTHON) -m coverage report
	@echo "$$($(PYTHON) -m coverage report --format=total) % of the statements and branches are taken"

.PHONY: audit
audit: setup  ## known vulnerabilities of the pinned packages, and a bill of materials in build/sbom.json
	scripts/audit.sh $(PYTHON)

.PHONY: lint
lint: setup  ## style and types
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m mypy

.PHONY: grpc-messages
grpc-messages: setup  ## generate the messages of the gRPC protocol from its .proto files
	@scripts/grpc_messages.sh $(PYTHON)

.PHONY: format
format: setup  ## bring the code into its format
	$(PYTHON) -m ruff check --fix-only $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

.PHONY: docs
docs: setup  ## make the generated pages of docs/ from the code, and the site in site/
	$(PYTHON) scripts/formats.py
	$(PYTHON) scripts/configuration.py
	$(PYTHON) scripts/findings.py
	$(PYTHON) scripts/behaviours.py
	$(WITH_JAVA) $(PYTHON) scripts/pages.py
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

.PHONY: bench
bench: setup  ## all benches in one table and plot, beside RocketMQ itself (needs Maven; QUICK=1 to see that it works; PARTS="store follow")
	$(WITH_JAVA) $(PYTHON) bench/all.py

.PHONY: bench-topics
bench-topics: setup  ## 64, 128 and 256 topics in reput, RocketMQ and Kafka, as stores and as brokers (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) bench/topics.py

.PHONY: bench-rebuild
bench-rebuild: setup  ## rebuild beside RocketMQ itself, in one run (needs Maven; SIZES="1 4" for a quick one)
	$(WITH_JAVA) $(PYTHON) bench/rebuild.py

.PHONY: bench-store
bench-store: setup  ## put, get and look up beside RocketMQ itself, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/store.py

.PHONY: bench-broker
bench-broker: setup  ## serve RocketMQ's client beside RocketMQ's broker, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) bench/broker.py

.PHONY: bench-client
bench-client: setup  ## reput.Producer and reput.Consumer beside RocketMQ's Java client, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) bench/client.py

.PHONY: bench-grpc
bench-grpc: setup  ## serve RocketMQ's client of version 5 by gRPC beside RocketMQ's proxy, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) PYTHONPATH=tests $(PYTHON) bench/grpc_port.py

.PHONY: bench-follow
bench-follow: setup  ## follow a writer, catch up and scan beside RocketMQ itself (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/follow.py

.PHONY: bench-limits
bench-limits: setup  ## what the machine can do at most: memory, page cache, disk, calls, starts (QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/limits.py

.PHONY: bench-scale
bench-scale: setup  ## how cost grows with messages, bytes, queues and splits, and a model of it (SIZES="1 4"; QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/scale.py

.PHONY: bench-scan
bench-scan: setup  ## reput.scan beside the decode kernel alone, in one run (QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/scan.py

.PHONY: bench-parquet
bench-parquet: setup  ## read with Spark and export beside Spark and pyarrow on Parquet, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/parquet.py

.PHONY: bench-queues
bench-queues: setup  ## RocksDB queues and a million queues beside RocketMQ itself, in one run (needs Maven; QUICK=1 to see that it works)
	$(WITH_JAVA) $(PYTHON) bench/queues.py

.PHONY: clean
clean:  ## remove what the targets made, .venv included
	rm -rf .venv .venv-3.* .venv-audit .venv-bootstrap .setup.log .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist demo-store site bench/work
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
