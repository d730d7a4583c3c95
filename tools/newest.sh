#!/usr/bin/env bash
# Runs the engine's tests with the newest `redis` crate that its Cargo.toml allows, instead of the one in Cargo.lock.
# In a copy of the project: the lock file of the checkout stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/target/newest
copy=build/newest
rm -rf "$copy"
mkdir -p "$copy"
git ls-files --cached --others --exclude-standard -z | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$copy"
cd "$copy"
cargo update --package redis
grep -A 1 '^name = "redis"$' Cargo.lock
CARGO_TARGET_DIR=$target cargo test --package duly --features opentelemetry --no-fail-fast \
    --lib --test conformance --test engine --test worker --test faults
