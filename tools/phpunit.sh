#!/usr/bin/env bash
# PHP's tests, the files side by side, because most of them wait: tools/phpunit.sh [--think] [phpunit's options]
# With --think those of the package for ThinkPHP; most of these need DULY_THINK_VENDOR, a folder with ThinkPHP.
# Each file is a process with a server of its own. What it says is printed whole, when it ends.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

one_file() {
    local file=$1 output status
    output=$(phpunit --configuration php-tests/phpunit.xml "${@:2}" "$file" 2>&1)
    status=$?
    # PHPUnit ends well without a test, and a process that died may have said nothing.
    grep -qE '^(OK \(|OK, but|Tests: )' <<<"$output" || status=1
    printf '== %s\n%s\n' "$file" "$output"
    return $status
}
export -f one_file

folder=php-tests
if [ "${1:-}" = --think ]; then
    folder=php-tests/think
    set -- --verbose "${@:2}" # it says why a test was skipped
fi

# The longest ones first.
wc -c $folder/*Test.php | sort -rn | awk '$2 != "total" && $2 !~ /ConformanceTest/ { print $2 }' |
    xargs -P "${DULY_TEST_PROCESSES:-4}" -I {} bash -c 'one_file "$@"' _ {} "$@"
