#!/usr/bin/env bash
# Makes the page that needs no server, in build/page: the rooms as WebAssembly, compiled by Debian 13's Emscripten in a root
# that is made below build/roots, and what web/src/alone makes of them. As root, with debootstrap, node and npm.
#   scripts/page.sh         leaves build/page, for whatever serves files
#   scripts/page.sh test    tries it in Debian's chromium, beside build/release/folio
# node web/alone/pace.mjs TEXT then says how fast it is.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian_root.sh
packages="emscripten cmake ninja-build $(printf '%s-dev ' libtomlplusplus libxxhash libcurl4-openssl libarchive libpng)"
sources="highway fmtlib nettle zlib"
# What the root was made of is written down beside it, so that it follows when that changes. Of the libraries that are
# compiled with folio the root has the sources as they came, of those that a browser goes without the headers.
if [[ "$(cat "$roots/page.made" 2>/dev/null)" != "$packages $sources" ]]; then
  new_root trixie page
  inside page "
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
    apt-get update -q
    apt-get install --no-install-recommends -y -q $packages
    mkdir -p /usr/src/page/include/nettle
    cd /usr/src/page
    apt-get source --tar-only -q $sources
    for tar in *.tar.*; do tar --extract --file \"\$tar\"; done
    cp -r /usr/include/toml++ /usr/include/xxhash.h /usr/include/png*.h /usr/include/archive*.h \
      /usr/include/*-linux-gnu/curl include/
    cp nettle-*/nettle-types.h nettle-*/nettle-meta.h nettle-*/sha2.h include/nettle/"
  printf '%s\n' "$packages $sources" >"$roots/page.made"
fi
SHARED=1 inside page '
  for build in alone:OFF alone_threads:ON; do
    emcmake cmake -G Ninja -S web/alone -B "build/${build%:*}" -DTHREADS="${build#*:}" -DCMAKE_BUILD_TYPE=Release \
      -DFOLIO_UNITS=ON -DOUTSIDE=/usr/src/page --log-level=WARNING 2>&1
    ninja -j "$JOBS" -C "build/${build%:*}" folio
  done'
scripts/bootstrap.sh web
npm ci --prefix web --silent --no-audit --no-fund
npm run --prefix web --silent check
node web/alone/build.mjs build/alone build/alone_threads build/page
if [[ "${1:-}" == test ]]; then
  node --test --test-timeout=600000 web/alone/page.test.mjs
fi
