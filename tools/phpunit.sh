#!/usr/bin/env bash
# PHP's tests, the files side by side, because most of them wait: tools/phpunit.sh [--think|--laravel|--symfony] [phpunit's
# options]. With one of these those of php-tests/<framework>: most of them need the framework, and say how they find it.
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
case ${1:-} in
--think | --laravel | --symfony)
    folder=php-tests/${1#--}
    set -- --verbose "${@:2}" # it says why a test was skipped
    ;;
esac

# The longest ones first.
wc -c "$folder"/*Test.php | sort -rn | awk '$2 != "total" && $2 !~ /ConformanceTest/ { print $2 }' |
    xargs -P "${DULY_TEST_PROCESSES:-4}" -I {} bash -c 'one_file "$@"' _ {} "$@"
