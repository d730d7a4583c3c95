#!/usr/bin/env bash
# Builds the engine and both skins, and puts them where Python and PHP find them: tools/build.sh [--dev]
#
# Without --dev in release mode, as users get them: for the figures. With it for the demo and the tests, in the one shape in
# which `cargo t` builds the Rust tests too (the whole workspace, with traces), so that nothing is compiled twice.
# Whichever was built last is what `.venv` and `build/php.d` load; every make target builds its own first.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
target=${CARGO_TARGET_DIR:-target}
mkdir -p build

# Copied beside and moved over: a process that has the old file mapped must not see it change.
put() { # put <from> <to>
    if ! cmp -s "$1" "$2"; then
        cp "$1" "$2.new"
        mv "$2.new" "$2"
    fi
}

# A library's file, wherever the system calls it .dylib.
library() { # library <folder> <name>
    local file=$1/lib$2.so
    [ -e "$file" ] || file=$1/lib$2.dylib
    echo "$file"
}

case ${1:-} in
--dev)
    # The examples (workers that tests start) are why the dependencies of tests take part; without them Cargo would
    # choose other features for a few packages, and compile the engine again.
    profile=debug
    cargo build --workspace --features duly/opentelemetry --lib --examples
    ;;
'')
    # All in one call, or most would be compiled once for each of them.
    profile=release
    cargo build --release -p duly -p duly-python -p duly-php -p duly-php-console --lib --examples
    ;;
*)
    sed -n '2s/^# //p' "$0" >&2
    exit 2
    ;;
esac
put "$(library "$target/$profile" _core)" py-binding/python/duly/_core.abi3.so
put "$(library "$target/$profile" duly_php)" build/duly.so
put "$(library "$target/$profile" duly_php_console)" build/duly_console.so
# The ini file lets every PHP that inherits PHP_INI_SCAN_DIR load the extensions, php-fpm's and tests' children too.
mkdir -p build/php.d
printf 'extension=%s\n' "$PWD/build/duly.so" "$PWD/build/duly_console.so" >build/php.d/duly.ini
.venv/bin/python tools/link_python.py
