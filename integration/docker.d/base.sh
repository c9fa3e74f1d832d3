# shellcheck shell=bash
# The base image: Debian of this machine's release with python3-torch, made by debootstrap from the archive that apt uses
# here; no registry of images is asked. About 1 GB, built once: its tag is a digest of this file and the release.
#
# After `base_up`: $base is its tag. Fails with one line that says why. Needs engine.sh.

base_recipe=$(cd "${BASH_SOURCE[0]%/*}" && pwd)/base.sh

# Prints `deb URI SUITE COMPONENT` for every part of the Debian archive that apt of this machine is configured with.
debian_sources() {
    # shellcheck disable=SC2016 # the names are apt's, not the shell's
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'
}

base_up() {
    local release sources mirror root
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    base=shmguard-base:$release-$(sha256sum "$base_recipe" | cut -c1-12)
    docker image inspect "$base" >/dev/null 2>&1 && return 0

    sources=$(debian_sources)
    if [ -z "$sources" ]; then
        apt-get -qq -o DPkg::Lock::Timeout=300 update
        sources=$(debian_sources)
    fi
    mirror=$(awk -v suite="$release" '$3 == suite { print $2; exit }' <<<"$sources")
    if [ -z "$mirror" ]; then
        echo "not ok - apt on this machine knows no Debian archive for $release"
        return 1
    fi
    echo "# building the base image once: debootstrap $release, python3-torch"
    root=$SHMGUARD_CACHE/root
    rm -rf "$root"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >"$SHMGUARD_CACHE/debootstrap.log" 2>&1 || {
        echo "not ok - debootstrap failed; the end of its log:"
        tail -5 "$SHMGUARD_CACHE/debootstrap.log" | sed 's/^/#   /'
        return 1
    }
    echo "$sources" >"$root/etc/apt/sources.list"
    # How this machine reaches the archive (proxies), for the time of the build only.
    apt-config dump Acquire >"$root/etc/apt/apt.conf.d/00build"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    chroot "$root" sh -euc '
        export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends python3-torch
        apt-get clean
        rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
        rm -f /etc/apt/apt.conf.d/00build /usr/sbin/policy-rc.d
        useradd --uid 1000 --create-home user
    ' >"$SHMGUARD_CACHE/apt.log" 2>&1 || {
        echo "not ok - python3-torch cannot be installed into the base; the end of the log:"
        tail -5 "$SHMGUARD_CACHE/apt.log" | sed 's/^/#   /'
        return 1
    }
    tar -C "$root" -c . | docker import - "$base" >/dev/null
    rm -rf "$root"
}
