#!/usr/bin/env bash
# Runs the fuzz targets, each for so many seconds: tools/fuzz.sh <seconds> [target ...]. Ends with "N passed, N failed".
#
# It needs a nightly compiler and cargo-fuzz (tools/setup.sh --soak). Texts that reached new code stay in build/fuzz, and the next run
# begins with them. A text that made a target fail is in build/fuzz/failed: put it into core/fuzz/seeds, which `cargo test` tries, too.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${1:?how many seconds} passed=0 failed=0
shift
fuzz=(cargo +nightly fuzz)
options=(--fuzz-dir core/fuzz --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/fuzz")
targets=("$@")
[ $# != 0 ] || mapfile -t targets < <("${fuzz[@]}" list --fuzz-dir core/fuzz)

# The first, because cargo fuzz would change the lock file without a word.
if ! cargo +nightly fetch --quiet --locked --manifest-path core/fuzz/Cargo.toml || ! "${fuzz[@]}" build "${options[@]}"; then
    echo '0 passed, 1 failed'
    exit 1
fi
mkdir -p build/fuzz/failed
for target in "${targets[@]}"; do
    mkdir -p "build/fuzz/$target"
    if "${fuzz[@]}" run "${options[@]}" "$target" "build/fuzz/$target" "core/fuzz/seeds/$target" -- -max_total_time="$seconds" \
        -seed="${DULY_SEED:-24301}" -timeout=10 -artifact_prefix="$PWD/build/fuzz/failed/$target-" -print_final_stats=1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
