# shellcheck shell=sh
# Sourced by scripts and by integration/run: finds or installs what they need.
# Works on Debian 12 and its kin as root; anywhere else it says what is missing.
# Nothing is installed that is already there.

# say TEXT: a line for the reader, apart from the output of programs.
say() { printf '== %s\n' "$*"; }

# die TEXT: the reason on stderr, exit 1.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# have WHAT: true if WHAT is a command, an existing absolute path or an installed package.
have() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ||
            dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' ;;
    esac
}

# install PACKAGE...: by apt-get. Waits for another apt-get; asks nothing.
install() {
    command -v apt-get >/dev/null 2>&1 || die "missing: $*; there is no apt-get here, install them by hand"
    [ "$(id -u)" = 0 ] || die "missing: $*; run as root, or: sudo apt-get install $*"
    say "installing $*"
    # The lists of a fresh image are empty, those of an old one name files that are gone.
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 update >&2 ||
        die "apt-get update failed"
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
        install --no-install-recommends "$@" >&2 </dev/null || die "apt-get could not install: $*"
}

# need WHAT:PACKAGE...: installs PACKAGE wherever WHAT (see `have`) is missing.
# A single word is command and package in one.
need() {
    missing=
    for pair in "$@"; do
        have "${pair%%:*}" || missing="$missing ${pair#*:}"
    done
    # shellcheck disable=SC2086 # a list of package names
    [ -z "$missing" ] || install $missing
    for pair in "$@"; do
        have "${pair%%:*}" || die "${pair%%:*} is still missing after installing ${pair#*:}"
    done
}

# rust_serves CARGO: true if this cargo and the rustc it calls are of at least the
# rust-version that the workspace in the current directory declares.
rust_serves() {
    wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)
    [ -n "$wanted" ] || die "Cargo.toml declares no rust-version"
    for tool in "$1" "${1%cargo}rustc"; do
        found=$("$tool" --version 2>/dev/null | sed -n 's/^[a-z]* \([0-9.]*\).*/\1/p')
        [ -n "$found" ] || return 1
        [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] || return 1
    done
}

# need_rust [clippy] [fmt]: a cargo that serves is the first in PATH afterwards: the one of
# PATH or of ~/.cargo, else Debian's rustc-web and cargo-web (the plain rustc of Debian 12
# is 1.63).
need_rust() {
    for cargo in cargo "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" /usr/bin/cargo; do
        if rust_serves "$cargo"; then
            [ "$cargo" = cargo ] || PATH=${cargo%/cargo}:$PATH
            break
        fi
        cargo=
    done
    if [ -z "$cargo" ]; then
        install rustc-web cargo-web
        rust_serves /usr/bin/cargo || die "Debian's cargo-web is older than the rust-version of Cargo.toml ($wanted)"
        PATH=/usr/bin:$PATH
    fi
    export PATH
    # cargo fetches the crates by https and the linker is gcc.
    need /etc/ssl/certs/ca-certificates.crt:ca-certificates cc:gcc /usr/include/stdio.h:libc6-dev
    for part in "$@"; do
        cargo "$part" --version >/dev/null 2>&1 && continue
        if [ "$(command -v cargo)" = /usr/bin/cargo ]; then
            case $part in
                clippy) install rust-web-clippy ;;
                fmt) install rustfmt-web ;;
            esac
        elif command -v rustup >/dev/null 2>&1; then
            case $part in
                clippy) rustup component add clippy ;;
                fmt) rustup component add rustfmt ;;
            esac
        fi
        cargo "$part" --version >/dev/null || die "cargo $part is missing and could not be installed"
    done
    say "$(cargo --version), $(command -v cargo)"
}

# need_torch: Debian's PyTorch for Debian's python3; PYTHON is its interpreter afterwards.
need_torch() {
    PYTHON=/usr/bin/python3
    need $PYTHON:python3 /usr/lib/python3/dist-packages/torch:python3-torch
    export PYTHON
}
