#!/usr/bin/env bash
# Makes the .deb files of another release of Debian from the commit that is checked out, and tries them there:
#   scripts/packages_in.sh trixie
# As root, with debootstrap; everything is below build/roots and build/packages. One root compiles, and stays for the next
# time. lintian must have nothing to say about the packages. A fresh root then installs them, trains and writes with the
# program, and compiles and runs an example in C.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="${1:?usage: scripts/packages_in.sh SUITE, for example trixie}"
. scripts/debian_root.sh
builder="$roots/$suite-build" fresh="$roots/$suite-fresh"

[[ -d "$builder" ]] || new_root "$suite" "$suite-build"
find "$builder/folio" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
rm -f "$builder"/folio/build/packages/*.deb
git archive HEAD | tar --extract --directory "$builder/folio"
inside "$suite-build" '
  scripts/bootstrap.sh build
  scripts/bootstrap.sh packages
  scripts/packages.sh
  apt-get install --no-install-recommends -y -q lintian >/dev/null
  lintian --allow-root --fail-on error,warning build/packages/*.deb
' SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" ${MAINTAINER:+MAINTAINER="$MAINTAINER"}
mkdir -p build/packages
cp "$builder"/folio/build/packages/*.deb build/packages/

new_root "$suite" "$suite-fresh"
cp "$builder"/folio/build/packages/*.deb examples/c/tokenize.c "$fresh/folio/"
inside "$suite-fresh" '
  apt-get update -q >/dev/null
  apt-get install --no-install-recommends -y -q ./*.deb gcc libc6-dev pkgconf >/dev/null
  folio version
  folio data stories --out stories.txt --bytes 100000
  folio train --data stories.txt --preset char-cpu --max-steps 20 --out run
  folio generate --model run --prompt "One day" --max-tokens 40
  cc tokenize.c $(pkg-config --cflags --libs folio) -o tokenize
  ./tokenize run stories.txt | tail -n 1'
rm -rf "$fresh"
