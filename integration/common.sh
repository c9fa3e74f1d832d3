# shellcheck shell=sh
# Sourced by the cases in this directory (POSIX sh). SHMGUARD_LIB is the library under
# test, an absolute path; integration/run sets it.
#
#     #!/bin/sh
#     # case: what it shows; ci|manual; needs: root docker:docker.io strace
#     set -eu
#     . "$(dirname "$0")/common.sh"
#     ... ok "..." or fail "..." for each thing checked ...
#     finish
#
# `needs` lists words: `root`, or PROGRAM:PACKAGE, or one word that is both; an absolute
# path may stand for PROGRAM. What is missing fails the case: nothing is skipped.

here=$(cd "$(dirname "$0")" && pwd)
root=${here%/integration}
# shellcheck disable=SC2034 # for the cases
examples=$root/examples
failures=0

[ -n "${SHMGUARD_LIB:-}" ] || { echo "SHMGUARD_LIB is not set: start this by integration/run" >&2; exit 1; }
[ -f "$SHMGUARD_LIB" ] || { echo "SHMGUARD_LIB=$SHMGUARD_LIB does not exist" >&2; exit 1; }

# ok TEXT, fail TEXT: the outcome of one check.
ok() { printf 'ok    %s\n' "$*"; }
fail() { printf 'FAIL  %s\n' "$*"; failures=$((failures + 1)); }

# check TEXT COMMAND...: ok if COMMAND exits 0; its output is shown either way.
check() {
    text=$1; shift
    if "$@"; then ok "$text"; else fail "$text (exit status $?)"; fi
}

# finish: ends the case, exit 1 if any check failed.
finish() {
    [ "$failures" = 0 ] || { echo "$failures checks failed"; exit 1; }
    exit 0
}

# shmbox OPTIONS COMMAND...: runs COMMAND with a /dev/shm of its own, in namespaces of its
# own for mounts and processes (whatever it leaves running ends with it). OPTIONS: a size
# (64m) or tmpfs mount options (size=64m,nr_inodes=100). Exit status as COMMAND's, 128+N
# for a signal. COMMAND gets no SHMGUARD_LIB (which is ours, and no variable of the library's);
# a variable for COMMAND alone: shmbox 64m env LD_PRELOAD="$SHMGUARD_LIB" ...
shmbox() {
    case $1 in
        *=*) shmbox_options=$1 ;;
        *) shmbox_options=size=$1 ;;
    esac
    shift
    # sh stays as process 1: a process 1 ignores signals that kill anybody else.
    env -u SHMGUARD_LIB unshare --mount --pid --fork --mount-proc --kill-child sh -c '
        mount -t tmpfs -o "mode=1777,$0" tmpfs /dev/shm || exit 125
        "$@"
        exit $?' "$shmbox_options" "$@"
}
