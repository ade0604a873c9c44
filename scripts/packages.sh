#!/usr/bin/env bash
# Makes what people install without a compiler, in build/packages:
#   folio-VERSION-linux-ARCH.tar.gz   runs wherever it is unpacked, on any Linux whose C library is not older than this one's:
#                                     every other library is inside. bin/, lib/ with libfolio.so, include/folio.h, share/
#   folio_*.deb libfolio0_*.deb libfolio-dev_*.deb   for the release of Debian that this is; only where dpkg is
#   SBOM.cdx.json                     the libraries inside the tar file, as CycloneDX 1.5 lists them
#   MAINTAINER='Name <address>' names who made the .deb files.
# Archives are sorted and dated by the commit, so that two runs on it leave the same bytes.
#   scripts/packages.sh --compare   makes them of the commit in two directories, in the second without ccache, and fails
#                                   where a byte differs
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ "${1:-}" == --compare ]]; then
  places=build/compare
  rm -rf "$places"
  for clone in "$places/one" "$places/another/directory"; do
    git clone --quiet . "$clone"
    [[ "$clone" == */one ]] || export CCACHE_DISABLE=1
    "$clone/scripts/packages.sh"
  done
  status=0
  for file in "$places"/one/build/packages/*.{tar.gz,deb,json}; do
    cmp "$file" "$places/another/directory/build/packages/$(basename "$file")" || status=1
  done
  [[ "$status" -ne 0 ]] || echo "packages: the same bytes in both directories"
  exit "$status"
fi

export LC_ALL=C TZ=UTC
unset CCACHE_BASEDIR  # with it the compiler is given other names of files, and these are in the program
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

for tool in patchelf gcc; do
  command -v "$tool" >/dev/null || { echo "packages: $tool is missing; install it" >&2; exit 1; }
done
triplet="$(gcc -print-multiarch 2>/dev/null || true)"
libdir="lib${triplet:+/$triplet}"
build=build/package
stage="$PWD/build/package/stage"
out="$PWD/build/packages"
mkdir -p "$out"

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFOLIO_UNITS=ON -DFOLIO_TESTS=OFF "-DFOLIO_WERROR=${WERROR:-0}" \
  -DCMAKE_INSTALL_PREFIX=/usr "-DCMAKE_INSTALL_LIBDIR=$libdir" --log-level=WARNING >/dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
rm -rf "$stage"
DESTDIR="$stage/usr-tree" cmake --install "$build" --strip >/dev/null
usr="$stage/usr-tree/usr"

# ---- The tar file ----------------------------------------------------------------------------------

# The libraries that a file needs but those of the C library, as "name path" lines.
needs() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so|^ld-linux' || true
}

arch="$(uname -m)"
name="folio-$version-linux-$arch"
tree="$stage/$name"
mkdir -p "$tree/bin" "$tree/lib/folio" "$tree/include"
cp "$usr/bin/folio" "$tree/bin/"
cp -P "$usr/$libdir"/libfolio.so* "$tree/lib/"
cp "$usr/$libdir"/folio/*.so "$tree/lib/folio/" 2>/dev/null || true
cp "$usr/include/folio.h" "$tree/include/"
cp -r "$usr/share" "$tree/"
cp LICENSE README.md CHANGELOG.md "$tree/"
mkdir -p "$tree/lib/pkgconfig"
sed 's|^includedir=.*|includedir=${pcfiledir}/../../include|' "$usr/$libdir/pkgconfig/folio.pc" >"$tree/lib/pkgconfig/folio.pc"
{ needs "$tree/bin/folio"; needs "$tree/lib/libfolio.so"; } | sort -u >"$stage/needs"
# Each has a name of its own here, as the system's of the same name may be loaded later, by libcurl for example, and has what
# an older one lacks.
own() { printf '%s-folio.so%s' "${1%%.so*}" "${1#*.so}"; }
renames=()
while read -r soname path; do
  cp -L "$path" "$tree/lib/$(own "$soname")"
  renames+=(--replace-needed "$soname" "$(own "$soname")")
done <"$stage/needs"
find "$tree/lib" -name '*.so*' -type f -exec chmod 644 {} +
for library in "$tree"/lib/*-folio.so*; do
  patchelf --set-soname "$(basename "$library")" "$library"
done
# DT_RPATH, not DT_RUNPATH, so that a library's own libraries are found there, too. Both at once are too much for patchelf 0.14.
find "$tree/bin" "$tree/lib" \( -name folio -o -name '*.so*' \) -type f -print0 | sort -z | while read -r -d '' file; do
  patchelf "${renames[@]}" "$file"
  patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to="$(dirname "$file")" "$tree/lib")" "$file"
done

# The package that a file is of, where there are packages; some know it below /lib, which is /usr/lib.
package_with() {
  local path
  path="$(readlink -f "$1")"
  { dpkg -S "*${path#/usr}" 2>/dev/null || true; } | sed -n '1s/:.*//p'
}

# What is inside, and what is compiled in of headers: SONAME LICENCE, or PACKAGE LICENCE, by SPDX's names.
licences='
libbsd.so.0 BSD-3-Clause
libedit.so.2 BSD-3-Clause
libfmt.so.* MIT
libgcc_s.so.1 GPL-3.0-or-later WITH GCC-exception-3.1
libhwy.so.1 Apache-2.0
libmd.so.0 BSD-3-Clause
libnettle.so.8 LGPL-3.0-or-later OR GPL-2.0-or-later
libpng16.so.16 libpng-2.0
libseccomp.so.2 LGPL-2.1-only
libstdc++.so.6 GPL-3.0-or-later WITH GCC-exception-3.1
libtinfo.so.6 X11
libtomlplusplus.so.3 MIT
libz.so.1 Zlib
libboost-dev BSL-1.0
libxxhash-dev BSD-2-Clause
'
texts="$tree/share/doc/licences"
mkdir -p "$texts"
# component NAME PACKAGE [FILE]: as CycloneDX has it. What the licences ask for, their texts, comes along; Boost's asks for
# nothing beside a program.
component() {
  local licence version purl
  licence="$(while read -r name licence; do [[ "$1" != $name ]] || echo "$licence"; done <<<"$licences")"
  [[ -n "$licence" ]] || { echo "packages: the licence of $1 is not in scripts/packages.sh" >&2; return 1; }
  version="$(dpkg-query -W -f='${Version}' "$2" 2>/dev/null || true)"
  purl="$(sed 's/:/%3A/g; s/+/%2B/g' <<<"$version")"
  printf ',\n    {"type": "library", "name": "%s", "licenses": [{"expression": "%s"}]' "$1" "$licence"
  [[ -z "$version" ]] || printf ', "version": "%s",\n     "purl": "pkg:deb/debian/%s@%s"' "$version" "$(sed 's/+/%2B/g' <<<"$2")" "$purl"
  [[ -z "${3:-}" ]] || printf ',\n     "hashes": [{"alg": "SHA-256", "content": "%s"}]' "$(sha256sum "$3" | cut -d' ' -f1)"
  printf '}'
  [[ "$licence" == BSL-1.0 || ! -f "/usr/share/doc/$2/copyright" ]] || cp -L "/usr/share/doc/$2/copyright" "$texts/$1.txt"
}
{
  printf '{\n  "bomFormat": "CycloneDX",\n  "specVersion": "1.5",\n  "version": 1,\n'
  printf '  "metadata": {"component": {"type": "application", "name": "folio", "version": "%s", ' "$version"
  printf '"licenses": [{"expression": "MIT"}]}},\n  "components": [\n'
  {
    while read -r soname path; do
      component "$soname" "$(package_with "$path")" "$tree/lib/$(own "$soname")"
    done <"$stage/needs"
    component libboost-dev "$(package_with /usr/include/boost/beast.hpp)"
    component libxxhash-dev libxxhash-dev
  } | sed '1d'
  printf '\n  ]\n}\n'
} >"$out/SBOM.cdx.json"
cp "$out/SBOM.cdx.json" "$tree/share/doc/"
# Debian's texts name the longer licences by where they lie.
grep -rhoE 'common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$texts" | sort -u | while read -r licence; do
  [[ ! -e "/usr/share/$licence" ]] || cp -L "/usr/share/$licence" "$texts/"
done

pack() {  # DIRECTORY FILE
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w \
    --directory "$(dirname "$1")" "$(basename "$1")" | gzip -9n >"$2"
}
pack "$tree" "$out/$name.tar.gz"

# ---- Debian's packages -----------------------------------------------------------------------------

if command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
  debian="$(. /etc/os-release && echo "${VERSION_ID:-0}")"
  deb_version="$version-1~deb$debian"
  deb_arch="$(dpkg --print-architecture)"
  maintainer="${MAINTAINER:-the folio authors <authors@folio.example>}"

  # The package that a library of this name, which is opened when it is needed, comes from.
  package_of() {
    local path
    path="$(ldconfig -p | awk -v n="$1" '$1 == n {print $NF; exit}')"
    [[ -z "$path" ]] || package_with "$path"
  }

  # make_deb NAME SECTION SUMMARY DEPENDS RECOMMENDS MULTI-ARCH LONG: of $stage/NAME
  make_deb() {
    local root="$stage/$1" doc="$stage/$1/usr/share/doc/$1"
    mkdir -p "$root/DEBIAN" "$doc"
    {
      printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: folio\n\n'
      printf 'Files: *\nCopyright: 2026 the folio authors\nLicense: Expat\n'
      sed -n '/^Permission/,$p' LICENSE | sed 's/^$/./; s/^/ /'
    } >"$doc/copyright"
    gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
    printf 'folio (%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' "$deb_version" "$version" \
      "$maintainer" "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.Debian.gz"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    {
      printf 'Package: %s\nSource: folio\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$1" "$deb_version" "$deb_arch" \
        "$maintainer"
      printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$root/usr" | cut -f1)"
      [[ -n "$4" ]] && printf 'Depends: %s\n' "$4"
      [[ -n "$5" ]] && printf 'Recommends: %s\n' "$5"
      [[ -n "$6" ]] && printf 'Multi-Arch: %s\n' "$6"
      printf 'Section: %s\nPriority: optional\nDescription: %s\n' "$2" "$3"
      fold -s -w 76 <<<"$7" | sed 's/ *$//; s/^/ /'
    } >"$root/DEBIAN/control"
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -type f ! -perm -100 -exec chmod 644 {} +
    find "$root" -exec touch --no-dereference -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --build --root-owner-group "$root" "$out/${1}_${deb_version}_$deb_arch.deb" >/dev/null
  }
  depends_of() {  # FILE...
    (
      mkdir -p "$stage/shlibdeps/debian"
      cd "$stage/shlibdeps"
      printf 'Source: folio\n\nPackage: folio\nArchitecture: any\n' >debian/control
      printf 'libfolio 0 libfolio0 (>= %s)\n' "$version" >debian/shlibs.local
      dpkg-shlibdeps -O "$@" 2>/dev/null | sed 's/^shlibs:Depends=//'
    )
  }

  take() {  # PACKAGE PATH...: moves paths of the installed tree to the package's
    local package="$1" path
    shift
    for path in "$@"; do
      mkdir -p "$stage/$package/usr/$(dirname "$path")"
      mv "$usr/$path" "$stage/$package/usr/$(dirname "$path")/"
    done
  }
  (cd "$usr" && find "$libdir" -maxdepth 1 -name 'libfolio.so.*') | while read -r path; do take libfolio0 "$path"; done
  (cd "$usr" && find "$libdir" -maxdepth 1 \( -name '*.a' -o -name libfolio.so \) && printf '%s\n' include \
    "$libdir/cmake" "$libdir/pkgconfig") | while read -r path; do take libfolio-dev "$path"; done
  mv "$usr" "$stage/folio-usr" && mkdir -p "$stage/folio" && mv "$stage/folio-usr" "$stage/folio/usr"
  find "$stage/folio/usr/share/man" -name '*.1' -exec gzip -9n {} +

  mkdir -p "$stage/libfolio0/DEBIAN"
  printf 'libfolio 0 libfolio0 (>= %s)\n' "$version" >"$stage/libfolio0/DEBIAN/shlibs"
  printf 'activate-noawait ldconfig\n' >"$stage/libfolio0/DEBIAN/triggers"
  late="$(for one in libcurl.so.4 libarchive.so.13; do package_of "$one"; done | paste -sd, | sed 's/,/, /g')"
  make_deb folio science "train language models and write with them" "$(depends_of "$stage/folio/usr/bin/folio")" "$late" "" \
    "folio takes a text file to a trained decoder, and a decoder to text, pictures and a service over HTTP. It reads GPT-2, Llama, SmolLM, Qwen, Gemma and other small models, looks inside them, and fine-tunes them."
  make_deb libfolio0 libs "tokenize, train and run language models, shared library" \
    "$(depends_of "$(find "$stage/libfolio0" -name 'libfolio.so.*' -type f)")" "$late" same \
    "Tokenizers, training, fine-tuning and running of language models, for programs in C and for all that call C."
  make_deb libfolio-dev libdevel "tokenize, train and run language models, development files" "libfolio0 (= $deb_version)" \
    "$(dpkg-query -W -f='${Package}\n' libhwy-dev libfmt-dev libtomlplusplus-dev nettle-dev libpng-dev zlib1g-dev 2>/dev/null | paste -sd, | sed 's/,/, /g')" "" \
    "The header folio.h for C, the headers and static libraries for C++, and what pkg-config and CMake find them by."
fi
ls -l "$out" | awk 'NR > 1 && $NF ~ /\.(gz|deb|json)$/ {printf "%12d  %s\n", $5, $NF}'
