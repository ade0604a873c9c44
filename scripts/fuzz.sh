#!/usr/bin/env bash
# Runs each fuzz target for a time: scripts/fuzz.sh SECONDS. What reached new code is kept in
# build/fuzz/corpus and is where the next run begins; an input that breaks something is left in
# build/fuzz as TARGET-crash-..., and `build/asan/tests/fuzz/TARGET FILE` runs it again.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:?usage: scripts/fuzz.sh SECONDS}"
for target in tokenizer_fuzz tokenizer_file_fuzz torch_file_fuzz llmc_file_fuzz tf_bundle_fuzz; do
  corpus="build/fuzz/corpus/$target"
  mkdir -p "$corpus"
  echo "fuzz: $target for $seconds s, from $(find "$corpus" -type f | wc -l) inputs"
  UBSAN_OPTIONS=print_stacktrace=1 "build/asan/tests/fuzz/$target" -max_total_time="$seconds" \
    -max_len=1000 -len_control=0 -timeout=60 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$target-" "$corpus" 2>&1 |
    grep -vE '^stat::(new_units|slowest|peak)' 
done
