#!/usr/bin/env bash
# Runs the checks and tests and ends with "N passed, N failed".
#
#     tools/test.sh [beginning of a step's name], such as "rust", or "python: tests"
#     tools/test.sh --check | --unit    what needs no server: format, lint, types; the units in Rust
#     tools/test.sh --self-check
#
# Whatever a step needs is built before it. Of each step it reports the seconds, and those of the processors, also in
# build/test/times. How it works: tools/steps.sh. What takes longer, is random, or asks the network: tools/soak.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. tools/steps.sh
export RUSTDOCFLAGS='-D warnings'
# Most tests wait most of the time: more of them at once than there are processors.
export DULY_TEST_PROCESSES=${DULY_TEST_PROCESSES:-4}
export RUST_TEST_THREADS=$((2 * DULY_TEST_PROCESSES))
# The same random numbers in every run; tools/soak.sh takes new ones.
export DULY_MODEL_SEED=${DULY_MODEL_SEED:-24301} PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-24301} \
    DULY_KILL_SEED=${DULY_KILL_SEED:-24301}
shape=(--workspace --features duly/opentelemetry) # of every build: see tools/build.sh

# Without a server, and without anything that was built.
static() {
    check 'runner: a failing check fails' ./tools/test.sh --self-check
    check 'rust: format' cargo fmt --all --check
    beside rust_lints other_lints
}
rust_lints() {
    check 'rust: lint' cargo clippy "${shape[@]}" --all-targets -- -D warnings
    check 'rust: lint of the long runs' cargo clippy "${shape[@]}" --test soak -- -D warnings
    check 'rust: without traces' cargo check --workspace --lib --examples
}
other_lints() {
    check 'python: format' ruff format --check .
    check 'python: lint' ruff check .
    check 'python: types' over '*.py' mypy
    check 'php: syntax' each '*.php' php -l
    check 'php: style' over '*.php' phpcs -q -s
    check 'shell: lint' over '*.sh' shellcheck --external-sources .ci/run
    check 'words: typos' typos
    check 'scripts: marks of guards' ./tools/mutants.py --check
}

# What needs no server gets the address of one that is not there.
units() {
    tests 'rust: units without a server' env DULY_TEST_SERVER=/no/server \
        cargo test "${shape[@]}" --lib -- --skip model:: --skip connection::tests:: --skip embedded::tests::
}

# Other builds would compile PyO3 anew behind it. So it has a folder of its own, but where no build comes behind it: there it takes
# all else as the lint has left it.
free_threaded() {
    local what=(-p duly-python --target-dir "${CARGO_TARGET_DIR:-target}/free-threaded")
    [ "${CI:-}" = true ] && what=("${shape[@]}" --lib)
    timeout -k 10 "$longest_step_s" env PYO3_CONFIG_FILE="$PWD/py-binding/free-threaded.cfg" cargo check "${what[@]}"
}

# What the last step builds for itself: with what the tests leave of the processors.
build_ahead() {
    [ -z "$only" ] || return 0
    setsid nice -n 19 cargo build --release --quiet -p duly-bench --bin duly-guard \
        >"$logs/build-ahead.log" 2>&1 </dev/null &
    # With all that it has started: a Ctrl-C does not reach it.
    ahead=$!
    trap 'kill -- "-$ahead" 2>/dev/null' EXIT
}

steps() {
    static
    check 'rust: documentation' cargo doc "${shape[@]}" --no-deps --lib --examples
    build_ahead
    # Before those that need the skins side by side.
    needs skins check 'python: stubs' python -m mypy.stubtest duly
    beside python_conformance php_conformance
    # Tests that wait for much of their time leave processors to what stands beside them.
    beside integration other_rust_and_the_wheel
    beside python_tests php_and_docs
    # The file says what PyO3 would find out about such a Python, which few machines have.
    check 'rust: a Python without the GIL' free_threaded
    check 'bench: guard of the plain path' python -m bench.guard
}

python_conformance() { needs skins tests 'python: conformance' pytest python-tests/test_conformance.py; }
php_conformance() {
    needs skins tests 'php: conformance' phpunit --configuration php-tests/phpunit.xml --testsuite conformance
}
integration() {
    tests 'rust: integration' cargo test "${shape[@]}" --no-fail-fast --test engine --test worker --test faults
}
other_rust_and_the_wheel() {
    tests 'rust: units' cargo test "${shape[@]}" --lib
    tests 'rust: conformance' cargo test "${shape[@]}" --test conformance
    tests 'rust: examples in docs' env DULY_URL="embedded:$PWD/build/docs-server" cargo test "${shape[@]}" --doc
    check 'python: the wheel in an empty venv' ./tools/wheel.sh
}
python_tests() {
    needs skins tests 'python: tests' with_ctrl_c pytest python-tests --ignore=python-tests/test_conformance.py \
        --ignore=python-tests/test_docs_examples.py --numprocesses "$((2 * DULY_TEST_PROCESSES))" --dist loadgroup --durations=20
}
php_and_docs() {
    needs skins tests 'php: tests' with_ctrl_c ./tools/phpunit.sh
    needs skins tests 'php: ThinkPHP (DULY_THINK_VENDOR)' with_ctrl_c ./tools/phpunit.sh --think
    needs skins tests 'php: Laravel (DULY_LARAVEL_VENDOR)' with_ctrl_c ./tools/phpunit.sh --laravel
    needs skins tests 'php: Messenger (DULY_SYMFONY_VENDOR)' with_ctrl_c ./tools/phpunit.sh --symfony
    needs skins tests 'docs: examples' with_ctrl_c pytest python-tests/test_docs_examples.py \
        --numprocesses "$DULY_TEST_PROCESSES" --dist loadgroup
}

# Before the first step that needs it, whatever was chosen.
skins() { check 'build: the skins' ./tools/build.sh --dev; }

self_check() {
    self_steps() {
        check 'a check that passes' true
        check 'a check that fails' false
        check 'no files' over 'no/such/*.file' true
        tests 'a runner without tests' echo 'test result: ok. 0 passed; 0 failed; 0 ignored'
        tests 'a runner that dies' false
        tests 'cargo' printf 'test result: FAILED. 3 passed; 1 failed; 2 ignored;\ntest result: ok. 4 passed; 0 failed; 0 ignored;\n'
        tests 'pytest' echo '===== 1 failed, 5 passed, 2 skipped, 1 error in 0.10s ====='
        tests 'phpunit' echo 'Tests: 9, Assertions: 9, Errors: 1, Failures: 2, Skipped: 1.'
        tests 'phpunit, all well' echo 'OK (2 tests, 3 assertions)'
        tests 'a program of ours' echo '4 passed, 1 failed'
        needs a_good_step check 'a check that needs a step' true
        needs a_good_step check 'a check that needs it too' true
        needs a_bad_step tests 'a runner that needs a step that fails' echo 'OK (5 tests, 5 assertions)'
        beside a_lane a_lane_that_dies a_lane_that_leaves_out
    }
    a_lane() { tests 'a runner beside others' echo '3 passed, 1 failed'; }
    a_lane_that_dies() {
        chosen 'a check beside others' || return 0
        check 'a check beside others' true
        exit 1
    }
    a_lane_that_leaves_out() { not_run 'a check that cannot run here' 'for a reason'; }
    a_good_step() { check 'a step before' true; }
    a_bad_step() { check 'a step before that fails' false; }
    logs=build/test/self-check
    # 1 + 7 cargo + 5 pytest + 5 phpunit + 2 phpunit + 4 ours + 3 of the step before + 3 beside others;
    # 2 checks + 2 runners + 1 cargo + 2 pytest + 3 phpunit + 1 ours + 2 of the step that fails + 2 beside others.
    says '' '30 passed, 15 failed (not run: a check that cannot run here)' 'a step before' && [ "$(grep -c ' s ' $logs/times)" = 18 ] && says 'a check that needs it too' '2 passed, 0 failed' 'a step before'
}

# says <chosen> <closing line> <step>: the step has run once, too.
says() {
    local said status
    said=$(all_steps self_steps "$1")
    status=$?
    echo "$said"
    [ "$(tail -n 1 <<<"$said")" = "$2" ] && [ "$(grep -c "^ok  *$3  " <<<"$said")" = 1 ] &&
        { [[ $2 == *' 0 failed' ]] || [ $status = 1 ]; }
}

case ${1:-} in
--self-check) self_check ;;
--check) all_steps static "${2:-}" ;;
--unit) all_steps units "${2:-}" ;;
*) all_steps steps "${1:-}" ;;
esac
