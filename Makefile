# Each target is one script or program; they say more about themselves.
.PHONY: help setup build check unit test soak demo bench guard house screenshots clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## install what is missing on this machine (Debian packages, .venv)
	@./tools/setup.sh

build: setup ## the engine, the Python module in .venv, the PHP extension in build/duly.so
	@./tools/build.sh

demo: setup ## a PHP request closes an order in a Python worker, for real, then a page until Ctrl-C; ARGS=thinkphp: a controller of ThinkPHP pushes
	@./tools/build.sh --dev
	@PHP_INI_SCAN_DIR=:$(CURDIR)/build/php.d .venv/bin/python -m demo.run $(ARGS)

check: setup ## format and lint in every language, types of Rust and Python, without a server or a build of the skins
	@./tools/test.sh --check "$(ARGS)"

unit: setup ## the Rust units that need no server: seconds
	@./tools/test.sh --unit

test: setup ## every check and test, each after the build that it needs; ARGS=python: the steps that begin so
	@./tools/test.sh "$(ARGS)"

soak: setup ## what is long, random or asks the network, and no part of test; ARGS=mutants: those steps; ARGS=--go-on: the rest
	@./tools/setup.sh --soak
	@./tools/soak.sh "$(ARGS)"

bench: build ## the figures, with the budget beside each
	@PHP_INI_SCAN_DIR=:$(CURDIR)/build/php.d .venv/bin/python -m bench.run

guard: setup ## count what the plain path costs, and compare it with bench/guard.json
	@.venv/bin/python -m bench.guard

house: ## what the house looks like: layers, circles, lines, scripts, the longest functions
	@./tools/house.py

screenshots: build ## the pictures of `duly web` in docs/operate
	@.venv/bin/python python-tests/screenshots.py

clean: ## remove everything that was built, .venv included
	rm -rf target build bench/out .venv .pytest_cache .mypy_cache .ruff_cache
