# shellcheck shell=bash
# Gives the sourcing script a Docker engine.
#
# An engine that answers already is used as it is. Where none does, one is started by hand, with its own socket, its own
# run directory and its own store, so that it is in nobody's way; it is stopped when the script ends.
#
# Needs ../common.sh and root. After `engine_up`: `docker` works; DOCKER_HOST is set if the engine is ours. The script
# calls `engine_down` when it exits.
# Where things are kept: $SHMGUARD_CACHE (default /var/cache/shmguard): the engine's store and with it the image, which
# is what makes a second run short.

# shellcheck source=../../scripts/needs.sh
. "$root/scripts/needs.sh"
SHMGUARD_CACHE=${SHMGUARD_CACHE:-/var/cache/shmguard}
engine_run=/run/shmguard-engine
engine_pid=

engine_down() {
    [ -n "$engine_pid" ] || return 0
    kill "$engine_pid" 2>/dev/null || true
    wait "$engine_pid" 2>/dev/null || true
    engine_pid=
}

engine_up() {
    [ "$(id -u)" = 0 ] || die "this case needs root: it starts a container engine"
    # Runlevel 1: the package must not start an engine of its own; that of this file is enough.
    RUNLEVEL=1 need dockerd:docker.io docker:docker.io debootstrap
    mkdir -p "$SHMGUARD_CACHE" "$engine_run"
    # One case at a time: two engines cannot share a store.
    exec 9>"$SHMGUARD_CACHE/lock"
    flock 9
    if docker info >/dev/null 2>&1; then
        say "using the engine that runs here: $(docker version --format '{{.Server.Version}}')"
        return 0
    fi
    export DOCKER_HOST=unix://$engine_run/docker.sock
    # No bridge and no packet filter: every container here runs with --network=none.
    setsid dockerd --bridge=none --iptables=false --ip6tables=false \
        --host "$DOCKER_HOST" --pidfile "$engine_run/pid" --exec-root "$engine_run/exec" \
        --data-root "$SHMGUARD_CACHE/engine" >"$engine_run/log" 2>&1 9>&- &
    engine_pid=$!
    local tries=0
    until docker info >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 120 ] || ! kill -0 "$engine_pid" 2>/dev/null; then
            tail -20 "$engine_run/log" >&2
            die "the engine does not start; above is the end of its log, $engine_run/log"
        fi
        sleep 0.5
    done
    say "started an engine: $(docker version --format '{{.Server.Version}}')," \
        "storage $(docker info --format '{{.Driver}}'), cgroup v$(docker info --format '{{.CgroupVersion}}')"
}
