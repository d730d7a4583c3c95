#!/usr/bin/env bash
# Compares the dependencies with the advisories of RustSec, by cargo-deny (tools/setup.sh --soak). Their database comes from the
# network, or from the clone in the folder that DULY_ADVISORY_DB names.
#
# tools/advisories.sh --can only tries whether there is a database; if not, it prints why, and its status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
database=https://github.com/RustSec/advisory-db
export GIT_TERMINAL_PROMPT=0
if [ -n "${DULY_ADVISORY_DB:-}" ]; then
    # cargo-deny lets git fetch the database, and git takes it from there.
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_VALUE_0=$database
    GIT_CONFIG_KEY_0=url.file://$(realpath "$DULY_ADVISORY_DB").insteadOf
    export GIT_CONFIG_KEY_0
fi
if ! timeout 20 git ls-remote --exit-code $database main >/dev/null 2>&1; then
    echo "there is no database of advisories in ${DULY_ADVISORY_DB:-$database}: DULY_ADVISORY_DB may name a clone of it"
    exit 1
fi
[ "${1:-}" = --can ] || cargo deny --all-features check advisories
