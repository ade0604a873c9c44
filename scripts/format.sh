#!/usr/bin/env bash
# Formats every C++ file of the project in place, or with --check says which are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc')
if [[ ${#files[@]} -eq 0 ]]; then
  echo "format: git lists no sources here" >&2
  exit 1
fi
case "${1:-}" in
  --check) clang-format --dry-run -Werror "${files[@]}" ;;
  "") clang-format -i "${files[@]}" ;;
  *)
    echo "usage: scripts/format.sh [--check]" >&2
    exit 2
    ;;
esac
