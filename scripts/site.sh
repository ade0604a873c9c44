#!/usr/bin/env bash
# Makes the documents a site, in build/site: the guides, the commands as the program describes them, and the references of
# C and C++ from the headers' comments. Nothing is downloaded once doxygen and build/site-venv are there. A broken link or
# anything else that Sphinx warns of is a failure, and so is a page that would ask another host for something.
#   scripts/site.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program="$PWD/${1:?usage: scripts/site.sh PROGRAM}"
venv=build/site-venv
sources="$PWD/build/site-sources"

if [[ ! -e "$venv/.installed" || docs/site/requirements.txt -nt "$venv/.installed" ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement docs/site/requirements.txt
  touch "$venv/.installed"
fi

# The documents, where links between them, and from them to sources, find each other.
rm -rf "$sources" build/site
mkdir -p "$sources"
cp README.md "$sources/readme.md"
cp web/src/icon.svg "$sources/"
cp -r CHANGELOG.md SECURITY.md LICENSE CMakeLists.txt docs examples install packaging "$sources/"
mkdir "$sources/web"
cp web/API.md "$sources/web/"
ln -s "$PWD/src" "$PWD/tests" "$sources/"
mv "$sources"/docs/site/* "$sources/"
"$program" help --man "$sources/man" >/dev/null
FOLIO_MAN="$sources/man" "$venv/bin/sphinx-build" -W --keep-going -q -j auto -c "$sources" "$sources" build/site
if grep -rlE '<span class="pre">--[a-z0-9-]{1,20}</span>' build/site --include='*.html'; then
  echo "site: flags on these pages may be broken behind their hyphens" >&2
  exit 1
fi
if grep -rL 'rel="shortcut icon"' build/site --include='*.html' | grep .; then
  echo "site: these pages have no icon" >&2
  exit 1
fi
if grep -rlE '<(script|link|img|iframe|source)[^>]+(src|href)="(https?:)?//' build/site --include='*.html'; then
  echo "site: these pages would ask another host" >&2
  exit 1
fi
echo "site: build/site/index.html, $(find build/site -name '*.html' | wc -l) pages"
