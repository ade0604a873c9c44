#!/usr/bin/env bash
# Makes the .deb files of another release of Debian from the commit that is checked out, and tries them there:
#   scripts/packages_in.sh trixie
# As root, with debootstrap; everything is below build/roots and build/packages. One root compiles, and stays for the next
# time. lintian must have nothing to say about the packages, and scripts/try_packages.sh tries them.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="${1:?usage: scripts/packages_in.sh SUITE, for example trixie}"
. scripts/debian_root.sh
builder="$roots/$suite-build"

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

scripts/try_packages.sh "$suite"
