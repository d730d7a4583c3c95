#!/usr/bin/env bash
# Builds the engine and both skins in release mode: tools/build.sh [rust] [python] [php], all without an argument.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
target=${CARGO_TARGET_DIR:-target}
mkdir -p build

build_rust() {
    cargo build --release -p duly --lib --examples
}

build_python() {
    VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin develop --release --quiet
}

# The ini file lets every PHP that inherits PHP_INI_SCAN_DIR load the extension, php-fpm's and tests' children too.
build_php() {
    cargo build --release -p duly-php
    local library=$target/release/libduly_php.so
    [ -e "$library" ] || library=$target/release/libduly_php.dylib
    # Copied beside and moved over: a PHP that has the old file mapped must not see it change.
    cp "$library" build/duly.so.new
    mv build/duly.so.new build/duly.so
    mkdir -p build/php.d
    echo "extension=$PWD/build/duly.so" >build/php.d/duly.ini
}

for part in "${@:-rust python php}"; do
    for one in $part; do
        "build_$one"
    done
done
