#!/usr/bin/env bash
# Runs each fuzz target for a time, as many at once as there are processors: scripts/fuzz.sh SECONDS. It
# begins with tests/fuzz/corpus and with what reached new code in earlier runs, which is kept in
# build/fuzz/corpus; an input that breaks
# something is left in build/fuzz as TARGET-crash-..., and `build/asan/tests/fuzz/TARGET FILE` runs it
# again.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:?usage: scripts/fuzz.sh SECONDS}"
Fuzz() {  # TARGET SECONDS
  local corpus="build/fuzz/corpus/$1" committed="tests/fuzz/corpus/$1" status=0 output
  mkdir -p "$corpus"
  output="$(UBSAN_OPTIONS=print_stacktrace=1 "build/asan/tests/fuzz/$1" -max_total_time="$2" \
    -max_len=1000 -len_control=0 -timeout=60 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$1-" "$corpus" "$committed" 2>&1)" || status=$?
  printf 'fuzz: %s for %s s\n%s\n' "$1" "$2" "$(grep -vE '^stat::(new_units|slowest|peak)' <<<"$output")"
  return "$status"
}
export -f Fuzz
find build/asan/tests/fuzz -name '*_fuzz' -type f -printf '%f\n' | sort |
  xargs -P "$(nproc)" -I TARGET bash -c "Fuzz TARGET $seconds"
