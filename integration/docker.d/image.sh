# shellcheck shell=bash
# The image of the container cases: the base, the library at /usr/lib/libshmguard.so, the programs in /app, and
# `ENV LD_PRELOAD=/usr/lib/libshmguard.so`. Built each time; it is two small layers on the base.
#
# After `image_up`: $image is its tag, $SHMGUARD_LIB the library that is inside. Needs engine.sh.

# shellcheck disable=SC2034 # for the script that sources this
image=shmguard-case
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
project=${here%/integration/docker.d}
# shellcheck source=base.sh
. "$here/base.sh"

image_up() {
    local context
    base_up || exit 1
    if [ -z "${SHMGUARD_LIB:-}" ]; then
        (cd "$project" && cargo build --quiet --release -p shmguard-shim) || {
            echo "not ok - the library builds"
            exit 1
        }
        SHMGUARD_LIB=${CARGO_TARGET_DIR:-$project/target}/release/libshmguard.so
    fi
    context=$(mktemp -d)
    cp "$SHMGUARD_LIB" "$context/libshmguard.so"
    cp "$project/examples/train.py" "$here"/*.py "$context/"
    cat >"$context/Dockerfile" <<END
FROM $base
COPY libshmguard.so /usr/lib/libshmguard.so
COPY *.py /app/
WORKDIR /app
ENV LD_PRELOAD=/usr/lib/libshmguard.so
END
    # The classic builder: BuildKit would want an image of its own from the network.
    DOCKER_BUILDKIT=0 docker build --quiet --network none --tag "$image" "$context" >"$context/log" 2>&1 || {
        echo "not ok - the image builds"
        sed 's/^/#   /' "$context/log"
        rm -rf "$context"
        exit 1
    }
    rm -rf "$context"
}
