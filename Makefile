# Every command of the project. `make run` and `make test` are each enough on a fresh Debian 12 that has nothing but
# the Swift toolchain: scripts/setup.sh installs what is missing, and is silent and fast where nothing is.

SHELL := /bin/bash
# Imports point down only: an import of a module that a target does not declare fails the build.
CHECKED := --explicit-target-dependency-import-check error
# Exclusive access to memory is proven by the compiler where it can be and checked at run time where it cannot. Those
# checks run in every debug build, so in all tests; here they are left out: they are 10 % of the instructions of a
# request that is answered at once, and 19 % of one that is delivered to a device (callgrind, the work of `make bench-ingest`).
OPTIMISED := -c release -Xswiftc -enforce-exclusivity=unchecked
# What swift-format reads, as far as it exists.
FORMATTED := $(wildcard Sources Tests Benchmarks Fuzz Package.swift)
# Seconds for each fuzzing target.
SECONDS ?= 20
# How often `make crash` kills the service.
KILLS ?= 100
# Of simulations: seconds that they take, and simulated hours of traffic in each.
DURATION ?= 60
HOURS ?= 0.5

.DEFAULT_GOAL := help
.PHONY: help build release run test docs sim screenshots lint format fuzz crash clean setup
.PHONY: bench allocations
# `make lint test` shows findings in that order, and two builds at once would only wait for each other's lock.
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@scripts/setup.sh build

build: setup ## Build everything for debugging
	swift build $(CHECKED)

release: setup ## Build everything optimised
	swift build $(OPTIMISED) $(CHECKED)

run: release ## Run a service with a device and send it a push (ONCE=1 stops after that; PORT=2197)
	@scripts/run.sh

# `swift build` comes first so that a build that fails is not reported as a test that fails.
test: ## Build and run all tests (FILTER=name runs some)
	@scripts/setup.sh test
	swift build --build-tests $(CHECKED)
	@scripts/test.sh $(if $(FILTER),'$(FILTER)')

docs: setup ## Make pages of the libraries' documentation (.build/docs)
	@scripts/docs.sh

sim: ## Simulate one world after the other (DURATION=60 seconds, HOURS=0.5 simulated in each, SEED=1 to begin with)
	@scripts/setup.sh build
	swift build $(OPTIMISED) $(CHECKED) --product apus-sim
	.build/release/apus-sim --duration $(DURATION) --hours $(HOURS) $(if $(SEED),--seed $(SEED))

screenshots: release ## Make pictures of the console's views (Documentation/console)
	@scripts/setup.sh test
	.venv/bin/python Tests/ConsoleTests/Browser/screenshots.py .build/release/apus Documentation/console

lint: ## Check the format of all Swift files
	swift format lint --strict --parallel -r $(FORMATTED)

format: ## Put all Swift files into that format
	swift format -i --parallel -r $(FORMATTED)

fuzz: setup ## Fuzz each parser (SECONDS=20 each)
	Fuzz/run.sh all $(SECONDS)

crash: release ## Kill the service KILLS=100 times under load and account for all it accepted (SEED=number)
	Tests/Crash/run.sh --kills $(KILLS) $(if $(SEED),--seed $(SEED))
	Tests/Crash/feedback.py $(if $(SEED),--seed $(SEED))

bench: release ## Measure everything beside its yardstick, or some rows (ROWS="idle ingest.stored", ARGUMENTS=...)
	@scripts/setup.sh test
	@scripts/setup.sh bench
	Benchmarks/bench.py $(ROWS) $(ARGUMENTS)

# One suite of it: bench-ingest, bench-store and so on.
bench-%: release
	@$(if $(filter page,$*),scripts/setup.sh test)
	@scripts/setup.sh bench
	Benchmarks/bench.py $* $(ARGUMENTS)

# Counts are exact, so they may fail a build; times may not.
allocations: release ## Count heap allocations for each message, against their ceilings
	@scripts/setup.sh allocations
	Benchmarks/allocations.py

clean: ## Remove what building, testing and running left
	rm -rf .build .venv .apus
