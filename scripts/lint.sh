#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the sources (not the tests), as build/release
# was configured to compile them. Arguments: files to check instead of all.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -f build/release/compile_commands.json ]]; then
  echo "lint: run 'make build' first: clang-tidy reads build/release/compile_commands.json" >&2
  exit 1
fi
if [[ $# -gt 0 ]]; then
  files=("$@")
else
  mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- \
    'src/*.cc' ':!:src/*_test.cc')
fi
if [[ ${#files[@]} -eq 0 ]]; then
  echo "lint: git lists no sources here" >&2
  exit 1
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wreserved-identifier 2> >(
      grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' >&2
    )
