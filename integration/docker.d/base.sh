# shellcheck shell=bash
# The base image: Debian of this machine's release with python3-torch, made by debootstrap from the archive that apt uses
# here; no registry of images is asked. About 1 GB, built once: its tag is a digest of this file and the release.
#
# After `base_up`: $base is its tag. Fails with one line that says why. Needs engine.sh.

# Prints `deb URI SUITE COMPONENT` for every part of the Debian archive that apt of this machine is configured with.
debian_sources() {
    # shellcheck disable=SC2016 # the names are apt's, not the shell's
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'
}

base_up() {
    local release sources mirror tree
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    base=shmguard-base:$release-$(sha256sum "$here/docker.d/base.sh" | cut -c1-12)
    docker image inspect "$base" >/dev/null 2>&1 && return 0

    sources=$(debian_sources)
    if [ -z "$sources" ]; then
        apt-get -qq -o DPkg::Lock::Timeout=300 update
        sources=$(debian_sources)
    fi
    mirror=$(awk -v suite="$release" '$3 == suite { print $2; exit }' <<<"$sources")
    [ -n "$mirror" ] || die "apt on this machine knows no Debian archive for $release"
    say "building the base image once: debootstrap $release, python3-torch"
    tree=$SHMGUARD_CACHE/tree
    rm -rf "$tree"
    debootstrap --variant=minbase "$release" "$tree" "$mirror" >"$SHMGUARD_CACHE/debootstrap.log" 2>&1 || {
        tail -5 "$SHMGUARD_CACHE/debootstrap.log" >&2
        die "debootstrap failed; above is the end of its log"
    }
    echo "$sources" >"$tree/etc/apt/sources.list"
    # How this machine reaches the archive (proxies), for the time of the build only.
    apt-config dump Acquire >"$tree/etc/apt/apt.conf.d/00build"
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod 755 "$tree/usr/sbin/policy-rc.d"
    chroot "$tree" sh -euc '
        export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends python3-torch
        apt-get clean
        rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
        rm -f /etc/apt/apt.conf.d/00build /usr/sbin/policy-rc.d
        useradd --uid 1000 --create-home user
    ' >"$SHMGUARD_CACHE/apt.log" 2>&1 || {
        tail -5 "$SHMGUARD_CACHE/apt.log" >&2
        die "python3-torch cannot be installed into the base image; above is the end of the log"
    }
    tar -C "$tree" -c . | docker import - "$base" >/dev/null
    rm -rf "$tree"
}
