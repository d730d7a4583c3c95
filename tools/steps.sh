# The machinery of test.sh and soak.sh: runs steps, counts what they ran, and reports. To be sourced in the project's folder.
# shellcheck shell=bash
#
# A check counts as one; of a test runner each test counts. A runner that ran no test has failed: a wrong path or filter
# would otherwise look like success. The output of each step is in $logs, its seconds are in $logs/times.

command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
PATH=$PWD/.venv/bin:$PATH
export PHP_INI_SCAN_DIR=:$PWD/build/php.d CARGO_TERM_COLOR=never NO_COLOR=1
logs=build/test
longest_step_s=1800
only='' passed=0 failed=0
noted='' # A file that has a line for each step that has passed: that one is not run again.

files() { git ls-files --cached --others --exclude-standard -- "$@"; }

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

# Adds up the numbers of cargo ("3 passed; 1 failed"), pytest ("3 passed, 1 failed, 1 error in 1.0s"), PHPUnit ("OK (3 tests,"
# or "Tests: 4, … Errors: 1, Failures: 1, Skipped: 1"), and of our own ("3 passed, 1 failed").
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
        /^[0-9]+ passed, [0-9]+ failed$/ { good += $1; bad += $3; next }
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

run() { # its output goes to $log, its seconds to $seconds, those of processors to $busy
    local start=$SECONDS status=0 before
    processor_seconds
    before=$spent
    if [ "$(type -t "$1")" = function ]; then
        "$@" >"$log" 2>&1 </dev/null || status=$?
    else
        timeout -k 10 $longest_step_s "$@" >"$log" 2>&1 </dev/null || status=$?
        [ $status != 124 ] || echo "stopped after $longest_step_s s" >>"$log"
    fi
    seconds=$((SECONDS - start))
    processor_seconds
    busy=$((spent - before))
    return $status
}

# Of all children that have ended, in $spent: what a busy machine does not change. Through a file, because a pipe's shell has
# children of its own.
processor_seconds() {
    local file=$logs/spent.$BASHPID
    times >"$file"
    spent=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$file")
    rm "$file"
}

chosen() {
    name=$1
    log=$logs/$(tr -cs 'a-z0-9\n' - <<<"$name").log
    [[ $name == "$only"* ]]
}

report() { # report ok|FAILED|'not run' 'what happened'
    printf '%-7s %-36s %4d s %4d s  %s\n' "$1" "$name" "$seconds" "$busy" "$2" | tee -a "$logs/times"
    [ "$1" != FAILED ] || { what_went_wrong "$log"; tail -n 60 "$log"; } | cut -c 1-400 | sed 's/^/        | /'
}

# The few lines that tell most, first: of pytest, PHPUnit, cargo test, compilers. Who reads may see no more than them.
what_went_wrong() {
    grep -aE '^(FAILED|ERROR) |_SEED=' "$1" | head -n 10
    grep -aE -A 2 '^E  |panicked at|^error(\[|:)|^[0-9]+\) |^Failed asserting|^Fatal error|stopped after' "$1" | head -n 30
    echo '...'
}

# Has the step passed before? Then with $good tests.
has_passed() {
    local line
    [ -n "$noted" ] && line=$(grep -m 1 -- "^$1: [0-9]*\$" "$noted") || return 1
    good=${line##*: } seconds=0 busy=0
    passed=$((passed + good))
    report ok "$good passed before"
}
note_passed() { [ -z "$noted" ] || echo "$name: $1" >>"$noted"; }

check() {
    chosen "$1" || return 0
    ! has_passed "$1" || return 0
    if run "${@:2}"; then
        passed=$((passed + 1))
        report ok ''
        note_passed 1
    else
        failed=$((failed + 1))
        report FAILED "see $log"
        return 1
    fi
}

tests() {
    chosen "$1" || return 0
    local status=0 good bad skipped
    ! has_passed "$1" || return 0
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
    if [ "$bad" = 0 ]; then report ok "$counted" && note_passed "$good"; else report FAILED "$counted, $bad failed; see $log"; fi
}

# A step that cannot be run here, and why: the last line names it.
not_run() {
    chosen "$1" || return 0
    seconds=0 busy=0
    report 'not run' "$2"
    echo "$1" >>"$logs/not-run"
}

# needs <step> check|tests <name> <command>: the step goes before it, once and whatever was chosen; without it, what needs it
# would run something old, so it has failed.
needs() {
    chosen "$3" || return 0
    local state=${1}_state chosen_before=$only
    if [ -z "${!state:-}" ]; then
        only=''
        if "$1"; then printf -v "$state" ok; else printf -v "$state" bad; fi
        only=$chosen_before
    fi
    if [ "${!state}" = ok ]; then
        "${@:2}"
    else
        chosen "$3"
        failed=$((failed + 1)) seconds=0 busy=0
        echo "not run: it needs the step before" >"$log"
        report FAILED 'not run'
    fi
}

# with_ctrl_c <command>: beside others, a shell lets its children ignore SIGINT, and tests of it would fail.
with_ctrl_c() { timeout -k 10 $longest_step_s env --default-signal=INT --default-signal=QUIT "$@"; }

# beside <function> [<function> ...]: the steps of all these functions, those of one beside those of the others.
# shellcheck disable=SC2030,SC2031 # each counts for itself, and says so in a file
beside() {
    local part good bad
    for part in "$@"; do
        rm -f "$logs/$part.counts"
        (
            passed=0 failed=0
            "$part"
            echo "$passed $failed" >"$logs/$part.counts"
        ) &
    done
    wait
    for part in "$@"; do
        read -r good bad 2>/dev/null <"$logs/$part.counts" || good=0 bad=1
        passed=$((passed + good)) failed=$((failed + bad))
    done
}

# all_steps <function that names the steps> [beginning of a step's name]
all_steps() {
    only=${2:-}
    mkdir -p "$logs"
    date -u '+%F %T UTC' >"$logs/times"
    : >"$logs/not-run"
    "$1"
    if [ $((passed + failed)) = 0 ] && [ ! -s "$logs/not-run" ]; then
        echo "no step begins with '$only'" >&2
        failed=1
    fi
    local left_out
    left_out=$(paste -sd '|' "$logs/not-run" | sed 's/|/, /g')
    echo "$passed passed, $failed failed${left_out:+ (not run: $left_out)}" | tee "$logs/result"
    [ $failed = 0 ]
}
