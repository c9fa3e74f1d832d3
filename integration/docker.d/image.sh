# shellcheck shell=bash
# The image of the container cases: the base, the library at /usr/lib/libshmguard.so, the programs in /app, and
# `ENV LD_PRELOAD=/usr/lib/libshmguard.so`. Built each time; it is two small layers on the base.
#
# After `image_up`: $image is its tag. Needs ../common.sh and engine.sh.

# shellcheck disable=SC2034 # for the script that sources this
image=shmguard-case
# shellcheck source=base.sh
. "$here/docker.d/base.sh"

image_up() {
    local context
    base_up
    context=$(mktemp -d)
    cp "$SHMGUARD_LIB" "$context/libshmguard.so"
    cp "$examples/train.py" "$here"/docker.d/*.py "$context/"
    cat >"$context/Dockerfile" <<END
FROM $base
COPY libshmguard.so /usr/lib/libshmguard.so
COPY *.py /app/
WORKDIR /app
ENV LD_PRELOAD=/usr/lib/libshmguard.so
END
    # The classic builder: BuildKit would want an image of its own from the network.
    DOCKER_BUILDKIT=0 docker build --quiet --network none --tag "$image" "$context" >"$context/log" 2>&1 || {
        cat "$context/log" >&2
        rm -rf "$context"
        die "the image does not build; above is the log"
    }
    rm -rf "$context"
}
