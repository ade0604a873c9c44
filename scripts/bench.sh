#!/usr/bin/env bash
# The benchmarks of training and of the tokenizer, as JSON on stdout. Run them on a quiet machine.
# TOKENIZER names what is measured if it is not gpt2 as `folio tokenizer fetch` puts it.
set -euo pipefail
cd "$(dirname "$0")/.."

folio=build/release/folio
tokenizer=${TOKENIZER:-gpt2}
"$folio" bench matmul --json
"$folio" bench train --preset char-cpu --batch 12 --context 64 --json
"$folio" bench train --preset gpt2 --batch 4 --context 64 --json
if ! "$folio" tokenizer info --tokenizer "$tokenizer" >/dev/null; then
  echo "bench: the tokenizer is left out" >&2
  exit 0
fi
"$folio" bench tokenizer --tokenizer "$tokenizer" --full --json

# From the start of the program to the tokens of 1 KB of text: the median of 21.
text=$(head -c 1000 README.md)
for _ in {1..21}; do
  begin=${EPOCHREALTIME/[.,]/}
  "$folio" tokenizer encode --tokenizer "$tokenizer" <<<"$text" >/dev/null
  echo $((${EPOCHREALTIME/[.,]/} - begin))
done | sort -n | awk 'NR == 11 { printf "{\"what\": \"start\", \"seconds\": %.6f}\n", $1 / 1e6 }'
