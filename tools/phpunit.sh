#!/usr/bin/env bash
# PHP's tests, the files side by side, because most of them wait: tools/phpunit.sh [phpunit's options]
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

# The longest ones first.
wc -c php-tests/*Test.php | sort -rn | awk '$2 != "total" && $2 !~ /ConformanceTest/ { print $2 }' |
    xargs -P "${DULY_TEST_PROCESSES:-4}" -I {} bash -c 'one_file "$@"' _ {} "$@"
