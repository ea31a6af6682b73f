# Every command of the project. `make run` and `make test` each work on a fresh Debian 12 with only the Swift toolchain:
# scripts/setup.sh installs what is missing, and is silent and fast if nothing is.

SHELL := /bin/bash
# Imports point down only: an import of a module that a target does not declare fails the build.
CHECKED := --explicit-target-dependency-import-check error
# The compiler proves exclusive access to memory where it can, and otherwise checks it at run time. Debug builds, and so
# all tests, have these checks; release builds leave them out, because they are 10 % of the instructions of a request
# that is answered at once, and 19 % of one delivered to a device (callgrind, the work of `make bench-ingest`).
# Swift's runtime is part of the programs, so that they run where there is no Swift.
OPTIMISED := -c release -Xswiftc -enforce-exclusivity=unchecked --static-swift-stdlib
# Of the tests. A build after which nothing changes, as in a fresh clone, is done in two thirds of the time if the
# compiler takes each module as a whole, and its debug information is for backtraces alone: WHOLE=1. Otherwise a change
# compiles a file, and not all of its module.
TESTED := $(if $(WHOLE),$(addprefix -Xswiftc ,-whole-module-optimization -num-threads 2 \
  -no-emit-module-separately-wmo -gline-tables-only))
# The existing paths that swift-format checks.
FORMATTED := $(wildcard Sources Tests Benchmarks Fuzz Package.swift)
# Seconds per fuzzing target.
SECONDS ?= 20
# Number of kills of `make crash`, and of faults of `make cluster`.
KILLS ?= 100
FAULTS ?= 100
# Where `make install` puts programs and settings, before every path the root of a package, and where debug symbols go
# (separate, or keep).
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
SYMBOLS ?= separate
# Rounds of `make burst`, and restarts of `make restart`.
TIMES ?= 5
# Simulated worlds, and hours of traffic in each.
WORLDS ?= 60
HOURS ?= 0.5
# Random walks before them.
WALKS ?= 1000

.DEFAULT_GOAL := help
.PHONY: help build release run check test edge-test docs sim screenshots lint format fuzz crash cluster burst restart clean
.PHONY: setup agent-shows
.PHONY: bench allocations install install-files package package-test image image-test monitoring-test certbot-test
# `make lint test` shows findings in this order, and parallel builds would only wait for each other's lock.
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@scripts/setup.sh build

build: setup ## Build everything for debugging
	swift build $(CHECKED)

release: setup ## Build everything optimised
	swift build $(OPTIMISED) $(CHECKED)

run: release ## Run a service with a device and send it a push (ONCE=1 stops after that; PORT=2197)
	@scripts/run.sh

# `swift build` comes first, so that a failed build is not reported as a failed test.
check: ## Build and run the tests of everything that does no I/O, in less than a minute
	@scripts/setup.sh build
	APUS_PURE=1 swift build --build-tests --scratch-path .build/check $(CHECKED)
	@scripts/test.py --build .build/check $(if $(FILTER),'$(FILTER)')

test: ## Build and run all tests (FILTER=name runs some)
	@scripts/setup.sh test
	swift build --build-tests $(TESTED) $(CHECKED)
	@Fuzz/run.sh check
	@scripts/test.py $(if $(FILTER),'$(FILTER)')

# In one run, the files that have least to do with what an edge does itself are left out.
EDGE_TESTS := ApusServerTests\.(Gateway(Delivery|End|Order|Table)|Feedback(List|Reader)|ChannelManagement|BroadcastRequest|Courier(Connect|Frame)|Delivery|Provider(Answer|Certificate|Token)|RequestReason|Stream|Subscription|PushDeviceChannel)

edge-test: ## Run the byte-level tests of the listeners behind an edge, with two nodes that decide
	@scripts/setup.sh test
	swift build --build-tests $(TESTED) $(CHECKED)
	APUS_TEST_EDGE=1 APUS_TEST_PARTS=2 scripts/test.py '$(EDGE_TESTS)'

docs: setup ## Make pages of the libraries' documentation (.build/docs)
	@scripts/docs.sh

sim: ## Simulate one world after the other (WORLDS=60, HOURS=0.5 simulated in each, SEED=1 to begin with)
	@scripts/setup.sh build
	swift build $(OPTIMISED) $(CHECKED) --product apus-sim
	@# Each run has one thread.
	@{ .build/release/apus-sim --walks --count $(WALKS) --seed $(or $(SEED),1) \
	    && .build/release/apus-sim --canaries && .build/release/apus-sim --known; } & rules=$$!; \
	.build/release/apus-sim --count $(WORLDS) --hours $(HOURS) $(if $(SEED),--seed $(SEED)); worlds=$$?; \
	wait $$rules && exit $$worlds

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
	Tests/Crash/relay.py $(if $(SEED),--seed $(SEED))
	@scripts/setup.sh test
	Tests/Crash/database.py $(if $(SEED),--seed $(SEED))
	Tests/Crash/relay.py --sender pyapns --count 2000 --kills 4 --outages 4 $(if $(SEED),--seed $(SEED))
	Tests/Crash/relay.py --sender apns-clerk --count 2000 --kills 4 --outages 4 $(if $(SEED),--seed $(SEED))

cluster: release ## Hit three nodes and their database with FAULTS=100, account for all (SEED=number)
	@scripts/setup.sh test
	Tests/Crash/cluster.py --faults $(FAULTS) $(if $(SEED),--seed $(SEED))

burst: release ## Send 10,000 notifications at once to a connected device, in many ways (TIMES=5 each)
	Tests/Crash/burst.py --times $(TIMES)

restart: release ## Restart the service under load: no request may be refused (TIMES=5)
	Tests/Crash/restart.py --times $(TIMES)

# In network namespaces, and so as root. The NAT takes half an hour.
agent-shows: release ## Suspend the agent, take its network, kill it and so on (SHOWS="suspend network nat kill rest")
	Tests/Agent/run.sh $(SHOWS)

bench: release ## Compare everything with its yardstick, or some rows (ROWS="idle ingest.stored", ARGUMENTS=...)
	@scripts/setup.sh test
	@scripts/setup.sh bench
	Benchmarks/bench.py $(ROWS) $(ARGUMENTS)

# One suite of it: bench-ingest, bench-store and so on.
bench-%: release
	@$(if $(filter page,$*),scripts/setup.sh test)
	@scripts/setup.sh bench
	Benchmarks/bench.py $* $(ARGUMENTS)

# Counts are exact, so they can fail a build; times cannot.
allocations: release ## Count heap allocations for each message, against their ceilings
	@scripts/setup.sh allocations
	Benchmarks/allocations.py

install: release install-files ## Install programs, manual pages, completions and units (PREFIX=/usr/local, DESTDIR=)

install-files:
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' SYMBOLS='$(SYMBOLS)' scripts/install.sh

package: ## Make Debian packages (.build/package)
	@scripts/package.sh

image: package ## Make a container image of it (.build/image/apus.tar), without a container engine
	@scripts/image.sh

image-test: image ## Run the image unprivileged on a read-only root, with the compose example's backend
	Tests/Container/run.sh

package-test: package ## Install, use, upgrade and purge those packages in a Debian 12 without Swift (as root)
	Tests/Package/run.sh

monitoring-test: release ## Test the alerts, and evaluate them and the dashboard in a real Prometheus
	Tests/Monitoring/run.sh

certbot-test: release ## Get a certificate with certbot, serve it, renew it while the service runs
	Tests/Certbot/run.sh

clean: ## Remove what building, testing and running left
	rm -rf .build .venv .apus
