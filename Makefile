# Each target is one script or program; they say more about themselves.
.PHONY: help setup build demo test bench guard clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install what is missing on this machine (Debian packages, .venv)
	@./tools/setup.sh

build: setup ## the engine, the Python module in .venv, the PHP extension in build/duly.so
	@./tools/build.sh

demo: build ## a PHP request closes an order in a Python worker, for real
	@PHP_INI_SCAN_DIR=:$(CURDIR)/build/php.d .venv/bin/python -m demo.run

test: setup ## every check and test in every language; ends with "N passed, N failed"
	@./tools/test.sh

bench: build ## the figures, with the budget beside each
	@PHP_INI_SCAN_DIR=:$(CURDIR)/build/php.d .venv/bin/python -m bench.run

guard: setup ## count what the plain path costs, and compare it with bench/guard.json
	@.venv/bin/python -m bench.guard

clean: ## remove everything that was built, .venv included
	rm -rf target build bench/out .venv .pytest_cache .mypy_cache .ruff_cache
