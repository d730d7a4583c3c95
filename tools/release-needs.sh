#!/bin/sh
# Installs what tools/release.sh --php needs into a container of Docker's official images of PHP, Debian or Alpine:
#
#     docker run --rm -v "$PWD:/duly" -w /duly php:8.3-zts-bookworm sh -c './tools/release-needs.sh && ./tools/release.sh --php'
set -eu

if command -v apk >/dev/null; then
    # Alpine's own Rust links with the musl of the system, as a module that PHP loads must.
    # shellcheck disable=SC2086 # a list, set by the image
    apk add --no-cache $PHPIZE_DEPS bash git clang-dev cargo zip unzip binutils redis
else
    apt-get update
    apt-get install -y --no-install-recommends git clang libclang-dev curl ca-certificates python3-venv zip unzip binutils redis-server
    curl -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
fi
# The checkout belongs to somebody outside of the container.
git config --global --add safe.directory "$PWD"
