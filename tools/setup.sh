#!/usr/bin/env bash
# Installs what is missing to build, test and demo duly: Debian packages, and the Python tools into .venv; with --soak also
# what only `make soak` needs. Says what it does, does nothing twice, and is silent when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
    gcc libc6-dev make pkg-config           # the linker Rust calls, and this file's caller
    php-cli php-dev php-sqlite3 php-curl    # the extension, and the demo's web endpoint and database
    libclang-dev clang                      # ext-php-rs reads PHP's headers with it
    openssl                                 # certificates for the TLS tests
    php-redis                               # what the queues that shops come from use
    php-fpm                                 # the extension under php-fpm
    prometheus prometheus-node-exporter     # reads the metrics, and checks the rules of alerts
    phpunit php-codesniffer                 # PHP tests and style
    composer                                # installs the classes, as users do
    php-illuminate-queue php-illuminate-redis php-illuminate-events php-illuminate-bus # workers that drivers run under
    php-symfony-redis-messenger php-symfony-console php-symfony-event-dispatcher
    lua5.1 lua-check shellcheck             # the scripts as the server gets them, and these here
    systemd                                 # reads the units of examples/deploy
    zip unzip                               # the archives of a release
    chromium chromium-driver fonts-noto-cjk # the page of `duly web` in a browser, in Chinese, too
    valgrind                                # counts the instructions of the plain path (bench/guard.py)
)
[ "${1:-}" != --soak ] || packages+=(golang-go) # the client of examples/go
python_at_least=11

say() { printf 'setup: %s\n' "$*" >&2; }
give_up() { say "$@"; exit 1; }

missing_packages() {
    local installed package
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
    for package in "${packages[@]}"; do
        grep -qx "$package installed" <<<"$installed" || echo "$package"
    done
    command -v redis-server valkey-server >/dev/null || echo redis-server
    # Debian keeps venv apart from python3; other builds of Python bring it along.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

install_packages() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || give_up "run this as root, then try again: apt-get install -y $*"
        as_root=(sudo)
    fi
    say "installing with apt: $*"
    # A service must not start because a developer wants its program; Debian asks this file before it starts one.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        # shellcheck disable=SC2064 # expanded now: the array is local
        trap "${as_root[*]} rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
        "${as_root[@]}" chmod 755 $policy
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    local log
    log=$(mktemp)
    { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null ||
        { tail -n 20 "$log" >&2; give_up "apt failed; the whole log is in $log"; }
    rm -f "$log"
}

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info < (3, $python_at_least))" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    give_up "Python 3.$python_at_least or newer is missing; debian: apt-get install python3 python3-venv"
}

python=$(find_python)
command -v cargo >/dev/null || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH="$HOME/.cargo/bin:$PATH"
command -v cargo >/dev/null || give_up "Rust is missing; get it from https://rustup.rs, then try again"

if command -v dpkg-query >/dev/null; then
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
else
    for program in redis-server php php-config clang openssl phpunit phpcs luac5.1 luacheck shellcheck; do
        command -v "$program" >/dev/null || say "not Debian, so please install it yourself: $program"
    done
fi

lock='python-tests/requirements.lock'
stamp=.venv/installed.lock
if ! cmp -s $lock $stamp; then
    if ! .venv/bin/python -c '' 2>/dev/null; then
        say "making .venv with $("$python" --version)"
        rm -rf .venv
        "$python" -m venv .venv
    fi
    say "installing the Python tools of $lock into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r $lock
    cp $lock $stamp
fi

# Compiling these takes minutes, and only the long runs need them.
cargo_deny=0.20.2
if [ "${1:-}" = --soak ] && [ "$(cargo deny --version 2>/dev/null)" != "cargo-deny $cargo_deny" ]; then
    say "installing cargo-deny $cargo_deny"
    cargo install --quiet --locked "cargo-deny@$cargo_deny" || say "cargo-deny is not there: its steps will fail"
fi
cargo_fuzz=0.13.1
if [ "${1:-}" = --soak ] && cargo +nightly --version >/dev/null 2>&1 &&
    [ "$(cargo +nightly fuzz --version 2>/dev/null)" != "cargo-fuzz $cargo_fuzz" ]; then
    say "installing cargo-fuzz $cargo_fuzz"
    cargo install --quiet --locked "cargo-fuzz@$cargo_fuzz" || say "cargo-fuzz is not there: its step will not be run"
fi
