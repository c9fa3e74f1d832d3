# shellcheck shell=bash
# Gives the sourcing script a Docker engine.
#
# An engine that answers already is used as it is. Where none does, one is started by hand, with its own socket, its own
# run directory and its own store, so that it is in nobody's way; it is stopped when the script ends.
#
# After `engine_up`: `docker` works. Needs root. Sets DOCKER_HOST if it started the engine.
# Where things are kept: $SHMGUARD_CACHE (default /var/cache/shmguard): the engine's store and with it the image, which
# is what makes a second run short.

SHMGUARD_CACHE=${SHMGUARD_CACHE:-/var/cache/shmguard}
engine_run=/run/shmguard-engine
engine_pid=

# Installs the packages that are missing. Arguments: pairs COMMAND PACKAGE.
need_commands() {
    local missing=()
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    echo "# installing ${missing[*]}"
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
    # Runlevel 1: docker.io must not start an engine of its own; that of this file is enough.
    if ! { "${apt[@]}" update &&
        DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${apt[@]}" install -y "${missing[@]}" >/dev/null; }; then
        echo "not ok - install what this case needs: apt-get install ${missing[*]}"
        exit 1
    fi
}

engine_down() {
    [ -n "$engine_pid" ] || return 0
    kill "$engine_pid" 2>/dev/null || true
    wait "$engine_pid" 2>/dev/null || true
    engine_pid=
}

engine_up() {
    if [ "$(id -u)" != 0 ]; then
        echo "not ok - this case needs root (it starts a container engine)"
        exit 1
    fi
    need_commands dockerd docker.io docker docker.io debootstrap debootstrap
    mkdir -p "$SHMGUARD_CACHE" "$engine_run"
    # One case at a time: two engines cannot share a store.
    exec 9>"$SHMGUARD_CACHE/lock"
    flock 9
    if docker info >/dev/null 2>&1; then
        echo "# using the engine that runs here: $(docker version --format '{{.Server.Version}}')"
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
            echo "not ok - the engine does not start; the end of $engine_run/log:"
            tail -20 "$engine_run/log" | sed 's/^/#   /'
            engine_down
            exit 1
        fi
        sleep 0.5
    done
    echo "# started an engine: $(docker version --format '{{.Server.Version}}')," \
        "storage $(docker info --format '{{.Driver}}'), cgroup v$(docker info --format '{{.CgroupVersion}}')"
}
