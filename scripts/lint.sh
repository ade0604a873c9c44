#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the sources (not the tests), each as the preset
# `lint` would compile it by itself.
#   scripts/lint.sh            every source; if all pass, .ci/linted is this commit
#   scripts/lint.sh --changed  without those that passed before, in the commit of .ci/linted or in a run
#                              of this script, with the same text, headers, checks, ways to be
#                              compiled and packages
#   scripts/lint.sh FILE...    these
set -euo pipefail
cd "$(dirname "$0")/.."

passed="${XDG_CACHE_HOME:-$HOME/.cache}/folio/lint"  # a file named KEY for each source that passed
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$passed"
find "$passed" -type f -mtime +60 -delete

# keys DIR: "KEY SOURCE" for each source under DIR/src, whose preset `lint` is configured. A key stands for
# all that clang-tidy looks at: the source and the headers of the project that it includes, directly or
# not, how it is compiled, and what decides how it looks.
keys() (
  cd "$1"
  common="$(cat .clang-tidy; clang-tidy --version; dpkg-query -W -f '${Package} ${Version}\n' '*-dev' 2>/dev/null || true)"
  common="$(sha256sum <<<"$common" | cut -c1-64)"
  grep -rHo '^#include "folio/[^"]*"' src | sed 's|:#include "| src/|; s|"$||' >"$scratch/includes"
  find src -name '*.h' -o -name '*.cc' | LC_ALL=C sort | xargs sha256sum >"$scratch/sums"
  # "SOURCE COMMAND", the same in any directory.
  sed -n "s|$PWD/||g; s|^ *\"command\": \"\(.*\) -c \([^ ]*\)\",\$|\2 \1|p" build/lint/compile_commands.json >"$scratch/commands"
  awk 'function Visit(file,  next_files, count, i) {
         if (file in seen) return
         seen[file]
         all = all sum[file]
         count = split(includes[file], next_files)
         for (i = 1; i <= count; ++i) Visit(next_files[i])
       }
       FILENAME ~ /includes$/ { includes[$1] = includes[$1] " " $2; next }
       FILENAME ~ /commands$/ { source = $1; $1 = ""; command[source] = $0; next }
       { sum[$2] = $1; if ($2 ~ /\.cc$/ && $2 !~ /_test\.cc$/) sources[++found] = $2 }
       END {
         for (s = 1; s <= found; ++s) { split("", seen); all = ""; Visit(sources[s]); print sources[s], all command[sources[s]] }
       }' "$scratch/includes" "$scratch/commands" "$scratch/sums" |
    while read -r source all; do
      key="$(sha256sum <<<"$common$all")"
      echo "${key:0:64} $source"
    done
)

# The sources that need a look, of "KEY SOURCE" lines.
unknown() {
  local base key source
  base="$(cat .ci/linted 2>/dev/null || true)"
  if git cat-file -e "$base^{commit}" 2>/dev/null; then
    mkdir "$scratch/base"
    git archive "$base" | tar -x -C "$scratch/base"
    (cd "$scratch/base" && cmake --preset lint -DFOLIO_WERROR="$(sed -n 's/^FOLIO_WERROR:BOOL=//p' "$OLDPWD/build/lint/CMakeCache.txt")" >"$scratch/configured" 2>&1) ||
      { cat "$scratch/configured" >&2; return; }
    keys "$scratch/base" | cut -d ' ' -f 1 >"$scratch/landed"
  fi
  while read -r key source; do
    [[ -e "$passed/$key" ]] || grep -qxF "$key" "$scratch/landed" 2>/dev/null || echo "$key $source"
  done
}

keys . >"$scratch/keys"
case "${1:-}" in
  "") cp "$scratch/keys" "$scratch/todo" ;;
  --changed) unknown <"$scratch/keys" >"$scratch/todo" ;;
  *) grep -F "$(printf ' %s\n' "$@")" "$scratch/keys" >"$scratch/todo" ;;
esac
echo "lint: $(wc -l <"$scratch/todo") of $(wc -l <"$scratch/keys") sources"

export passed
# shellcheck disable=SC2016
xargs -r -n 2 -P "$(nproc)" sh -c '
  clang-tidy -p build/lint --quiet --extra-arg=-Wreserved-identifier "$2" && : >"$passed/$1"
' lint <"$scratch/todo" 2> >(
  grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' >&2
)
if [[ -z "${1:-}" && -z "$(git status --porcelain -- src cmake CMakeLists.txt CMakePresets.json .clang-tidy)" ]]; then
  git rev-parse HEAD >.ci/linted
fi
