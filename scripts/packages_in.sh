#!/usr/bin/env bash
# Makes the .deb files of another release of Debian from the commit that is checked out, and tries them there:
#   scripts/packages_in.sh trixie
# As root, with debootstrap; everything is below build/roots and build/packages. One root compiles and stays for the next
# time. lintian must have nothing to say about the packages. A fresh root then installs them, trains and writes with the
# program, and compiles and runs an example in C.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="${1:?usage: scripts/packages_in.sh SUITE, for example trixie}"
roots="$PWD/build/roots"
base="$roots/$suite.tar" builder="$roots/$suite-build" fresh="$roots/$suite-fresh"
date="$(git log -1 --format=%ct)"
mkdir -p "$roots" build/packages

[[ "$(id -u)" -eq 0 ]] || { echo "packages_in: only root can enter another root; run it through sudo" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "packages_in: debootstrap is missing; install it" >&2; exit 1; }
if [[ ! -e "$base" ]]; then
  rm -rf "$fresh"
  debootstrap --variant=minbase "$suite" "$fresh" >"$roots/$suite.log"
  tar --create --file "$base.part" --directory "$fresh" .
  mv "$base.part" "$base"
fi

# inside ROOT COMMAND: its mounts go when it ends.
inside() {
  unshare --mount --pid --fork env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    SOURCE_DATE_EPOCH="$date" JOBS="${JOBS:-$(nproc)}" ${MAINTAINER:+MAINTAINER="$MAINTAINER"} \
    sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -euc "$2"' - "$1" "$2"
}
unpack() {  # ROOT
  rm -rf "$1"
  mkdir "$1"
  tar --extract --file "$base" --directory "$1"
  cp /etc/resolv.conf "$1/etc/resolv.conf"
}

[[ -d "$builder" ]] || unpack "$builder"
mkdir -p "$builder/folio"
find "$builder/folio" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
rm -f "$builder"/folio/build/packages/*.deb
git archive HEAD | tar --extract --directory "$builder/folio"
inside "$builder" '
  cd /folio
  scripts/bootstrap.sh build
  scripts/bootstrap.sh packages
  scripts/packages.sh
  apt-get install --no-install-recommends -y -q lintian >/dev/null
  lintian --allow-root --fail-on error,warning build/packages/*.deb'
cp "$builder"/folio/build/packages/*.deb build/packages/

unpack "$fresh"
mkdir "$fresh/try"
cp "$builder"/folio/build/packages/*.deb examples/c/tokenize.c "$fresh/try/"
inside "$fresh" '
  cd /try
  apt-get update -q >/dev/null
  apt-get install --no-install-recommends -y -q ./*.deb gcc libc6-dev pkgconf >/dev/null
  folio version
  folio data stories --out stories.txt --bytes 100000
  folio train --data stories.txt --preset char-cpu --max-steps 20 --out run
  folio generate --model run --prompt "One day" --max-tokens 40
  cc tokenize.c $(pkg-config --cflags --libs folio) -o tokenize
  ./tokenize run stories.txt | tail -n 1'
rm -rf "$fresh"
