#!/usr/bin/env bash
# Runs every check and ends with "N passed, N failed": tools/test.sh [beginning of a step's name], such as "rust".
#
# A check counts as one; of a test runner each test counts. A runner that ran no test has failed: a wrong path or filter
# would otherwise look like success. The output of each step is in build/test/.
set -uo pipefail
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
PATH=$PWD/.venv/bin:$PATH
export PHP_INI_SCAN_DIR=:$PWD/build/php.d CARGO_TERM_COLOR=never NO_COLOR=1 RUSTDOCFLAGS='-D warnings'
logs=build/test
longest_step_s=1800
passed=0 failed=0

steps() {
    check 'runner: a failing check fails' ./tools/test.sh --self-check
    check 'rust: format' cargo fmt --all --check
    check 'rust: lint' cargo clippy --workspace --all-targets --test soak --features duly/opentelemetry -- -D warnings
    check 'rust: without traces' cargo check -p duly --lib
    check 'rust: documentation' cargo doc --no-deps -p duly
    tests 'rust: units' cargo test -p duly --features opentelemetry --lib
    tests 'rust: integration' cargo test -p duly --features opentelemetry --test engine --test worker --test faults --test soak
    tests 'rust: conformance' cargo test -p duly --features opentelemetry --test conformance
    tests 'rust: examples in docs' cargo test -p duly --features opentelemetry --doc
    # The file says what PyO3 would find out about such a Python, which few machines have.
    check 'rust: a Python without the GIL' env PYO3_CONFIG_FILE="$PWD/py-binding/free-threaded.cfg" \
        cargo check -p duly-python --target-dir "${CARGO_TARGET_DIR:-target}/free-threaded"
    check 'build' ./tools/build.sh
    check 'python: the wheel in an empty venv' ./tools/wheel.sh
    check 'python: format' ruff format --check .
    check 'python: lint' ruff check .
    check 'python: types' over '*.py' mypy
    check 'python: stubs' python -m mypy.stubtest duly
    tests 'python: tests' pytest python-tests --ignore=python-tests/test_conformance.py \
        --ignore=python-tests/test_docs_examples.py
    tests 'python: conformance' pytest python-tests/test_conformance.py
    check 'php: syntax' each '*.php' php -l
    check 'php: style' over '*.php' phpcs -q -s
    tests 'php: tests' phpunit --configuration php-tests/phpunit.xml --testsuite tests
    tests 'php: conformance' phpunit --configuration php-tests/phpunit.xml --testsuite conformance
    check 'bench: guard of the plain path' python -m bench.guard
    tests 'docs: examples' pytest python-tests/test_docs_examples.py
    check 'shell: syntax' each 'tools/*.sh' bash -n
}

files() { git ls-files --cached --others --exclude-standard -- "$1"; }

# over '*.php' phpcs: one call with all files; fails when there is none.
over() {
    local found
    mapfile -t found < <(files "$1")
    [ ${#found[@]} != 0 ] || { echo "no file matches $1"; return 1; }
    "${@:2}" "${found[@]}"
}

# each '*.php' php -l: one call per file; fails when there is none.
each() {
    local found file bad=0
    mapfile -t found < <(files "$1")
    [ ${#found[@]} != 0 ] || { echo "no file matches $1"; return 1; }
    for file in "${found[@]}"; do
        "${@:2}" "$file" || bad=1
    done
    return $bad
}

# Adds up the numbers of cargo ("3 passed; 1 failed"), pytest ("3 passed, 1 failed, 1 error") and
# PHPUnit ("OK (3 tests," or "Tests: 4, … Errors: 1, Failures: 1, Skipped: 1").
count() {
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^test result: / { good += $4; bad += $6; skipped += $8; next }
        /^(=+ )?[0-9]+ (passed|failed|error|skipped|xfailed|deselected|warning).* in [0-9.]+s/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) good += $(i - 1)
                if ($i ~ /^(failed|error)/) bad += $(i - 1)
                if ($i ~ /^skipped/) skipped += $(i - 1)
            }
            next
        }
        /^OK \([0-9]+ test/ { sub(/\(/, "", $2); good += $2; next }
        /^Tests: [0-9]+, / {
            gsub(/[,.]/, ""); n = wrong = left = 0
            for (i = 1; i < NF; i++) {
                if ($i == "Tests:") n = $(i + 1)
                if ($i ~ /^(Errors|Failures|Warnings|Risky):$/) wrong += $(i + 1)
                if ($i ~ /^(Skipped|Incomplete):$/) left += $(i + 1)
            }
            good += n - wrong - left; bad += wrong; skipped += left
        }
        END { print good + 0, bad + 0, skipped + 0 }'
}

run() { # its output goes to $log, its seconds to $seconds
    local start=$SECONDS status=0
    if [ "$(type -t "$1")" = function ]; then
        "$@" >"$log" 2>&1 </dev/null || status=$?
    else
        timeout -k 10 $longest_step_s "$@" >"$log" 2>&1 </dev/null || status=$?
        [ $status != 124 ] || echo "stopped after $longest_step_s s" >>"$log"
    fi
    seconds=$((SECONDS - start))
    return $status
}

chosen() {
    name=$1
    log=$logs/$(tr -cs 'a-z0-9\n' - <<<"$name").log
    [[ $name == "$only"* ]]
}

report() { # report ok|FAILED 'what happened'
    printf '%-7s %-32s %4d s  %s\n' "$1" "$name" "$seconds" "$2"
    [ "$1" = ok ] || { what_went_wrong "$log"; tail -n 60 "$log"; } | cut -c 1-400 | sed 's/^/        | /'
}

# The few lines that tell most, first: of pytest, PHPUnit, cargo test, compilers. Who reads may see no more than them.
what_went_wrong() {
    grep -aE '^(FAILED|ERROR) ' "$1" | head -n 10
    grep -aE -A 2 '^E  |panicked at|^error(\[|:)|^[0-9]+\) |^Failed asserting|^Fatal error|stopped after' "$1" | head -n 30
    echo '...'
}

check() {
    chosen "$1" || return 0
    if run "${@:2}"; then
        passed=$((passed + 1))
        report ok ''
    else
        failed=$((failed + 1))
        report FAILED "see $log"
    fi
}

tests() {
    chosen "$1" || return 0
    local status=0 good bad skipped
    run "${@:2}" || status=$?
    read -r good bad skipped < <(count "$log")
    # It stopped before it could count, or counted nothing.
    if [ "$bad" = 0 ] && { [ $status != 0 ] || [ "$good" = 0 ]; }; then
        bad=1
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
    local counted="$good passed"
    [ "$skipped" = 0 ] || counted+=", $skipped skipped"
    if [ "$bad" = 0 ]; then report ok "$counted"; else report FAILED "$counted, $bad failed; see $log"; fi
}

self_check() {
    steps() {
        check 'a check that passes' true
        check 'a check that fails' false
        check 'no files' over 'no/such/*.file' true
        tests 'a runner without tests' echo 'test result: ok. 0 passed; 0 failed; 0 ignored'
        tests 'a runner that dies' false
        tests 'cargo' printf 'test result: FAILED. 3 passed; 1 failed; 2 ignored;\ntest result: ok. 4 passed; 0 failed; 0 ignored;\n'
        tests 'pytest' echo '===== 1 failed, 5 passed, 2 skipped, 1 error in 0.10s ====='
        tests 'phpunit' echo 'Tests: 9, Assertions: 9, Errors: 1, Failures: 2, Skipped: 1.'
        tests 'phpunit, all well' echo 'OK (2 tests, 3 assertions)'
    }
    logs=build/test/self-check
    local said
    said=$(main '')
    # 1 + 7 cargo + 5 pytest + 5 phpunit + 2 phpunit; 2 checks + 2 runners + 1 cargo + 2 pytest + 3 phpunit
    local status=$?
    echo "$said"
    [ $status = 1 ] && [ "$(tail -n 1 <<<"$said")" = '20 passed, 10 failed' ]
}

main() {
    only=$1
    mkdir -p $logs
    steps
    if [ $((passed + failed)) = 0 ]; then
        echo "no step begins with '$only'" >&2
        failed=1
    fi
    echo "$passed passed, $failed failed" | tee $logs/result
    [ $failed = 0 ]
}

if [ "${1:-}" = --self-check ]; then
    self_check
else
    main "${1:-}"
fi
