#!/usr/bin/env bash
# Makes what a release consists of, in build/release/out: tools/release.sh --dry-run
#
# - for the PHP of this machine: the two extensions, linked against glibc 2.17, each in an archive with the name that PIE looks for
# - the source archives of the extensions (packages duly/ext and duly/ext-console), and that of the classes (duly/duly)
# - the wheel (manylinux 2.17) and the source distribution for Python
# - a bill of materials (CycloneDX) of each extension and of the module, and SHA256SUMS
#
# What was compiled is tried: installed and used. Of archives with sources, the workspace must be whole. It publishes nothing: .github/workflows/release.yml does that, for every PHP
# and processor of its matrix, by calling this script for one part in each job.
#
#     tools/release.sh --dry-run                      all of it, as far as this machine can
#     tools/release.sh --php | --python | --bill      only that part
#     tools/release.sh --check                        only whether all versions are one; builds nothing
#     tools/release.sh --complete FOLDER              whether all that a release consists of is in the folder; writes SHA256SUMS
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
root=$PWD
work=$root/build/release
out=$work/out
target=${CARGO_TARGET_DIR:-$root/target}
oldest_glibc=2.17
cargo_cyclonedx=0.5.7

say() { printf 'release: %s\n' "$*" >&2; }
give_up() { say "$@"; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

# One version, in one place: all others are compared with it.
check_version() {
    local found crate file heading="\\($version\\|Unreleased\\)"
    found=$(sed -n 's/.*"ext-duly": "\(.*\)".*/\1/p' php-binding/composer.json)
    [ "$found" = "$version" ] || give_up "Cargo.toml says $version and php-binding/composer.json requires ext-duly $found"
    for file in php-binding/php/src/Version.php php-binding/php/src/Worker.php; do
        found=$(sed -n "s/.*CLASSES = '\(.*\)';.*/\1/p" "$file")
        [ "$found" = "$version" ] || give_up "Cargo.toml says $version and $file $found"
    done
    for crate in duly duly-php duly-php-console duly-php-shared duly-python duly-console; do
        found=$(grep -A 1 "^name = \"$crate\"$" Cargo.lock | sed -n 's/^version = "\(.*\)"$/\1/p')
        [ "$found" = "$version" ] || give_up "Cargo.toml says $version and Cargo.lock has $crate ${found:-not at all}"
    done
    # Composer and PIE take the version of a release from its tag.
    if [ "${GITHUB_REF_TYPE:-}" = tag ]; then
        [ "$GITHUB_REF_NAME" = "$version" ] || give_up "Cargo.toml says $version and the tag is $GITHUB_REF_NAME"
        heading=$version
    fi
    grep -q "^## \[$heading\]" CHANGELOG.md || give_up "CHANGELOG.md has no heading for $version"
    say "version $version"
}

tools() {
    local lock=tools/release-requirements.lock venv=$work/venv
    if ! cmp -s $lock "$venv/installed.lock"; then
        say "installing $lock"
        rm -rf "$venv"
        "${PYTHON:-python3}" -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r $lock
        cp $lock "$venv/installed.lock"
    fi
    PATH="$venv/bin:$PATH"
}

# Of the libraries that a module is linked with, the newest glibc whose functions it calls.
needed_glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//'; }

check_glibc() {
    local needed
    needed=$(needed_glibc "$1")
    [ -n "$needed" ] || give_up "objdump finds no function of glibc in $1"
    [ "$(printf '%s\n%s\n' "$needed" $oldest_glibc | sort -V | tail -n 1)" = $oldest_glibc ] ||
        give_up "$1 needs glibc $needed, which is newer than $oldest_glibc"
    say "$(basename "$1") needs glibc $needed"
}

# pie_name <extension>: as PIE calls it: php_duly-0.1.0_php8.2-x86_64-linux-glibc.zip, with -zts for a PHP with threads.
pie_name() {
    # shellcheck disable=SC2016 # PHP's variables
    php -r '
        $libc = str_contains((string) @file_get_contents(PHP_BINARY), "ld-musl") ? "musl" : "glibc";
        $arch = strtr(php_uname("m"), ["aarch64" => "arm64", "AMD64" => "x86_64"]);
        printf("php_%s-%s_php%d.%d-%s-%s-%s%s", $argv[2], $argv[1], PHP_MAJOR_VERSION, PHP_MINOR_VERSION, $arch,
            strtolower(PHP_OS_FAMILY), PHP_OS_FAMILY === "Linux" ? $libc : "bsdlibc", PHP_ZTS ? "-zts" : "");' "$version" "$1"
}

# Not `cargo zigbuild`: that gives zig's headers also to bindgen, whose libclang crashes on them. Only the link decides which
# functions of glibc a module calls.
linked_by_zig() {
    local linker=$work/zig-cc variable
    printf '#!/bin/sh\nexec cargo-zigbuild zig cc -- -target %s-linux-gnu.%s "$@"\n' "$(uname -m)" $oldest_glibc >"$linker"
    chmod +x "$linker"
    variable=CARGO_TARGET_$(triple | tr 'a-z-' 'A-Z_')_LINKER
    env "$variable=$linker" "$@"
}

triple() { echo "$(uname -m)-unknown-linux-gnu"; }

php_extensions() {
    local packages=(-p duly-php -p duly-php-console) built
    case $(pie_name duly) in
    *-linux-glibc*)
        tools
        say "building the PHP extensions with glibc $oldest_glibc (minutes)"
        linked_by_zig cargo build --quiet --release --locked "${packages[@]}" --target "$(triple)"
        built=$target/$(triple)/release
        check_glibc "$built/libduly_php.so"
        check_glibc "$built/libduly_php_console.so"
        ;;
    *)
        say "building the PHP extensions"
        cargo build --quiet --release --locked "${packages[@]}"
        built=$target/release
        ;;
    esac
    php_archive duly "$built/libduly_php"
    php_archive duly_console "$built/libduly_php_console"
    try_php "$out/$(pie_name duly).zip" "$out/$(pie_name duly_console).zip"
}

# php_archive <extension> <library without its ending>
php_archive() {
    local folder
    folder=$(mktemp -d)
    cp "$2.so" "$folder/$1.so" 2>/dev/null || cp "$2.dylib" "$folder/$1.so"
    strip --strip-debug "$folder/$1.so" 2>/dev/null || strip -S "$folder/$1.so"
    cp LICENSE-MIT LICENSE-APACHE "$folder"
    (cd "$folder" && zip -qX "$out/$(pie_name "$1").zip" "$1.so" LICENSE-MIT LICENSE-APACHE)
    rm -rf "$folder"
}

# Unpacked elsewhere, loaded by a PHP without settings: a job is pushed, run and acked, and seen by the command and on the page.
try_php() {
    local folder archive
    folder=$(mktemp -d)
    for archive in "$@"; do (cd "$folder" && unzip -qo "$archive"); done
    # shellcheck disable=SC2016 # PHP's variables
    php -n -d extension="$folder/duly.so" -r '
        $queue = (new Duly\Client("embedded:" . $argv[1] . "/data"))->queue("orders");
        $id = $queue->push(["order_id" => 42], name: "order.close");
        $job = $queue->reserve(wait: 5);
        exit($job !== null && $job->id === $id && $job->ack() === null && phpversion("duly") === $argv[2] ? 0 : 1);
    ' "$folder" "$version" || give_up "$1 does not work in this PHP"
    # shellcheck disable=SC2016 # PHP's variables
    php -n -d extension="$folder/duly.so" -d extension="$folder/duly_console.so" -r '
        $url = "embedded:" . $argv[1] . "/data";
        $engine = new Duly\WebEngine(new Duly\Client($url), false);
        [$status, $page] = $engine->handle("GET", "/", "", [], "", ["view"], null, "", false);
        $isListed = $status === "200" && str_contains($page, "orders");
        exit($isListed && Duly\Console::run(["counts", "orders", "--url", $url]) === 0 ? 0 : 1);
    ' "$folder" >"$work/console.log" || give_up "$2 does not work in this PHP: see $work/console.log"
    rm -rf "$folder"
    for archive in "$@"; do say "$(basename "$archive") works in PHP $(php -r 'echo PHP_VERSION;')"; done
}

# Whether cargo finds all crates of the workspace in an archive with sources, and what they need.
whole_workspace() {
    (cd "$1" && cargo metadata --format-version 1 "${@:2}" >"$work/metadata.log" 2>&1) ||
        give_up "$(basename "$1"): $(tail -n 3 "$work/metadata.log")"
}

# The workspace is whole, because Cargo.lock is that of the whole workspace.
php_sources() {
    php_source duly ext
    php_source duly_console ext-console
    git archive --format=zip --prefix="duly-$version/" -o "$out/duly-$version-php-classes.zip" HEAD:php-binding composer.json bin php \
        duly.stubs.php
    say "duly-$version-php-classes.zip"
}

# php_source <extension> <its folder in php-binding>
php_source() {
    local name=php_$1-$version-src folder
    folder=$(mktemp -d)
    git archive --format=tar --prefix="$name/" HEAD Cargo.toml Cargo.lock .cargo rustfmt.toml README.md \
        LICENSE-MIT LICENSE-APACHE core console php-binding py-binding bench | tar -x -C "$folder"
    cp "php-binding/$2/composer.json" "$folder/$name/composer.json"
    tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tgz" -C "$folder" "$name"
    whole_workspace "$folder/$name" --locked
    # As PIE begins; that cargo builds it is a test of its own (php-tests/InstallTest.php).
    (cd "$folder/$name/php-binding/$2" && phpize && ./configure) >"$work/configure.log" 2>&1 ||
        give_up "phpize and configure fail in the source archive: see $work/configure.log"
    rm -rf "$folder"
    say "$name.tgz"
}

python_packages() {
    local wheel folder
    tools
    say "building the wheel with glibc $oldest_glibc (minutes)"
    VIRTUAL_ENV=$root/.venv .venv/bin/maturin build --quiet --release --locked --zig --compatibility "manylinux_${oldest_glibc/./_}" \
        --out "$out"
    VIRTUAL_ENV=$root/.venv .venv/bin/maturin sdist --out "$out"
    wheel=$(ls "$out"/duly-"$version"-*.whl)
    folder=$(mktemp -d)
    (cd "$folder" && unzip -q "$wheel" && tar -xzf "$out/duly-$version.tar.gz")
    # Not --locked: maturin leaves out the crates that Python does not need, and cargo takes them out of the lock.
    whole_workspace "$folder/duly-$version"
    check_glibc "$(ls "$folder"/duly/_core*.so)"
    .venv/bin/python -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"
    (cd "$folder/venv" && ./bin/python -c '
import duly
queue = duly.Client("embedded:data").queue("orders")
pushed = queue.push({"order_id": 42}, name="order.close")
job = queue.reserve(wait=5)
assert job is not None and job.id == pushed
job.ack()
') || give_up "$wheel does not work"
    rm -rf "$folder"
    say "$(basename "$wheel") works"
}

bill_of_materials() {
    if [ "$(cargo cyclonedx --version 2>/dev/null)" != "cargo-cyclonedx-cyclonedx $cargo_cyclonedx" ]; then
        say "installing cargo-cyclonedx $cargo_cyclonedx (minutes)"
        cargo install --quiet --locked "cargo-cyclonedx@$cargo_cyclonedx"
    fi
    cargo cyclonedx --quiet --format json --target "$(triple)" --override-filename sbom
    local crate
    for crate in php-binding php-binding/console py-binding; do
        mv "$crate/sbom.json" "$out/duly-$version-${crate//\//-}.cdx.json"
    done
    find . -name sbom.json -not -path './target/*' -delete
    say "bills of materials"
}

# What all jobs of the workflow have made together: an archive for each PHP, with threads and without, processor and libc.
check_whole() {
    local php arch libc threads file missing=0 wanted=()
    for php in 8.1 8.2 8.3 8.4 8.5; do
        for arch in x86_64 arm64; do
            for libc in glibc musl; do
                for threads in '' -zts; do
                    for file in php_duly php_duly_console; do
                        wanted+=("$file-${version}_php$php-$arch-linux-$libc$threads.zip")
                    done
                done
            done
        done
    done
    for arch in x86_64 aarch64; do
        wanted+=("duly-$version-cp310-abi3-manylinux2014_$arch.manylinux_${oldest_glibc/./_}_$arch.whl") # as maturin orders it
    done
    wanted+=("php_duly-$version-src.tgz" "php_duly_console-$version-src.tgz" "duly-$version-php-classes.zip" "duly-$version.tar.gz")
    wanted+=("duly-$version-php-binding.cdx.json" "duly-$version-php-binding-console.cdx.json" "duly-$version-py-binding.cdx.json")
    for file in "${wanted[@]}"; do
        [ -s "$1/$file" ] || { say "$file is missing"; missing=1; }
    done
    [ $missing = 0 ] || give_up "$1 is no whole release"
    (cd "$1" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
    say "${#wanted[@]} files, none is missing"
}

case ${1:-} in
--complete)
    check_version
    check_whole "${2:?the folder with all files}"
    exit
    ;;
--dry-run | --php | --python | --bill | --check) ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
check_version
[ "$1" != --check ] || exit 0
rm -rf "$out"
mkdir -p "$out"
case $1 in
--php)
    php_extensions
    php_sources
    ;;
--python) python_packages ;;
--bill) bill_of_materials ;;
--dry-run)
    php_extensions
    php_sources
    python_packages
    bill_of_materials
    ;;
esac
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out" >&2
say "nothing was published"
