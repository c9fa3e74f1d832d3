# shellcheck shell=sh
# Sourced by cases, after common.sh: runs one program three times and compares.
#
#     compare_begin                          $work, a directory on the disk, mode 1777; removed by compare_end
#     large COMMAND...                       without the library, /dev/shm of 4 GiB: what has to come out
#     alone SIZE PATTERN COMMAND...          without it in SIZE: has to fail, and to say PATTERN
#     refused_with SIZE PATTERN COMMAND...   with it in SIZE: has to fail as `alone` does
#     guarded SIZE COMMAND...                with it in SIZE: has to print what `large` printed, and to leave nothing
#     compare_end                            instead of finish
#
# SIZE as for shmbox. PATTERN: of grep -E, sought in what the command said; `SIGBUS` stands for
# a death by that signal, of the command or of a child that it names. Each is one check.
# Output is compared as a whole: a program prints what must be equal to stdout, the rest to stderr.
# Variables of a case: `what`, a word in front of each check; `redirects` = some (default: at least
# one segment must have gone to the target), none, or any; `limit`, seconds for one run (default 120);
# `guard_variables`, words such as SHMGUARD_ADVERTISE=1 for guarded runs; `leaves`, a pattern of
# grep -E for names that the program leaves in /dev/shm without the library as well
# (small ones, which are never redirected: the target must be empty all the same).

what=
redirects=some
limit=120
guard_variables=
leaves='^$'

compare_begin() {
    # On a disk, where segments of any size find room; others than root may need it.
    work=$(mktemp -d /var/tmp/shmguard-case-XXXXXX)
    chmod 1777 "$work"
    target=$work/target
    trap 'rm -rf "$work"' EXIT
    # Without these dash would not run the above when integration/run ends a case that takes too long.
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

compare_end() {
    rm -rf "$work"
    trap - EXIT
    finish
}

# boxed NAME SIZE COMMAND...: sets $status; $work/NAME.out, NAME.err, NAME.left (names left in /dev/shm).
boxed() {
    name=$1
    size=$2
    shift 2
    : >"$work/$name.left"
    status=0
    # What is left is looked at when the command has ended; what it left running ends with the box.
    shmbox "$size" sh -c '
        left=$0
        code=0
        timeout -k 5 "$@" || code=$?
        # A last process may be about to clean up behind the command, as resource trackers do.
        for i in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(ls -A /dev/shm)" ] || sleep 0.2; done
        ls -A /dev/shm >"$left"
        exit $code' "$work/$name.left" "$limit" "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null || status=$?
}

# told NAME: the end of what that run said, for the reader of a failure.
told() {
    echo "      exit status $status"
    for stream in out err; do tail -n 25 "$work/$1.$stream" | cut -c 1-300 | sed "s/^/      $stream| /"; done
}

# died PATTERN NAME
died() {
    [ "$status" != 0 ] && [ "$status" != 124 ] || return 1
    case $1 in
        SIGBUS) [ "$status" = 135 ] || grep -q -i -E 'bus error|SIGBUS|signal:? 7\b|signal: 7' "$work/$2.out" "$work/$2.err" ;;
        *) grep -q -i -E -- "$1" "$work/$2.out" "$work/$2.err" ;;
    esac
}

large() {
    boxed large 4g "$@"
    if [ "$status" = 0 ] && [ -s "$work/large.out" ]; then
        ok "${what:+$what: }works without the library in a large /dev/shm"
    else
        fail "${what:+$what: }does not work without the library in a large /dev/shm"
        told large
    fi
}

alone() {
    pattern=$2
    size=$1
    shift 2
    boxed alone "$size" "$@"
    if died "$pattern" alone; then
        ok "${what:+$what: }fails without the library in $size ($pattern)"
    else
        fail "${what:+$what: }does not fail as expected ($pattern) without the library in $size"
        told alone
    fi
}

# redirected: how many segments went to the target in the guarded run.
redirected() {
    find "$work/log" -name '*.jsonl' -exec cat {} + | grep -c -E '"ev":"(size|create)".*"where":"target"' || true
}

# under SIZE COMMAND...: a run with the library.
under() {
    size=$1
    shift
    rm -rf "$work/log" "$work/state" "$target"
    mkdir -m 1777 "$work/log" "$work/state" "$target"
    # shellcheck disable=SC2086 # words
    boxed guarded "$size" env SHMGUARD_LOG="$work/log" SHMGUARD_STATE="$work/state" SHMGUARD_REDIRECT="$target" \
        $guard_variables LD_PRELOAD="$SHMGUARD_LIB" "$@"
}

refused_with() {
    pattern=$2
    size=$1
    shift 2
    under "$size" "$@"
    if died "$pattern" guarded && [ "$(find "$target" -type f | wc -l)" = 0 ]; then
        ok "${what:+$what: }fails with the library in $size as without it ($pattern)"
    else
        fail "${what:+$what: }does not fail with the library in $size as without it ($pattern)"
        told guarded
    fi
}

guarded() {
    under "$@"
    wrong=
    [ "$status" = 0 ] || wrong="$wrong; exit status $status"
    cmp -s "$work/large.out" "$work/guarded.out" || wrong="$wrong; it prints something else than in a large /dev/shm"
    moved=$(redirected)
    case $redirects in
        some) [ "$moved" -gt 0 ] || wrong="$wrong; nothing was redirected" ;;
        none) [ "$moved" = 0 ] || wrong="$wrong; $moved segments were redirected" ;;
    esac
    # `|| true`: grep finds nothing, which is what we want.
    left=$(grep -v -E -- "$leaves" "$work/guarded.left" | tr '\n' ' ' || true)
    [ -z "$left" ] || wrong="$wrong; left in /dev/shm: $left"
    left=$(find "$target" -type f | wc -l)
    [ "$left" = 0 ] || wrong="$wrong; $left files left in the target"
    if [ -z "$wrong" ]; then
        ok "${what:+$what: }the same with the library in $size, $moved redirected"
    else
        fail "${what:+$what: }with the library in $size$wrong"
        diff "$work/large.out" "$work/guarded.out" | head -n 20 | sed 's/^/      diff| /'
        told guarded
    fi
}
