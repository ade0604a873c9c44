#!/usr/bin/env bash
# The benchmarks of training and of the tokenizer, a line of JSON each, on stdout. Run them on a
# quiet machine. TOKENIZER names what is measured if it is not gpt2 as `folio tokenizer fetch` puts
# it; FILES the texts that it encodes, if not what every Debian has: licences and Perl's library;
# FOLIO the program; ONLY, a part of a row's name, the rows to run.
set -euo pipefail
cd "$(dirname "$0")/.."

folio=${FOLIO:-build/release/folio}
tokenizer=${TOKENIZER:-gpt2}

# row NAME ARGUMENTS...: runs `folio ARGUMENTS --json` and puts the row's name in front.
row() {
  local name=$1
  shift
  [[ $name == *"${ONLY:-}"* ]] || return 0
  "$folio" "$@" --json | tr -s '\n ' '  ' | sed "s/^{ */{\"row\": \"$name\", /; s/ *$//"
  echo
}

train() {
  local name=$1
  shift
  row "$name" bench train --steps 5 "$@"
}

row matmul bench matmul
row attention bench attention
row ops bench ops
row optimizer bench optimizer --preset gpt2
train gpt2-fp32-T64 --preset gpt2 --batch 4 --context 64 --dtype fp32
train gpt2-fp32 --preset gpt2 --batch 4 --context 1024 --dtype fp32
train gpt2-bf16 --preset gpt2 --batch 4 --context 1024 --dtype bf16
train gpt2-bf16-recompute --preset gpt2 --batch 4 --context 1024 --dtype bf16 --recompute
for dtype in fp32 bf16 int8 int4; do
  row "generate-$dtype" bench generate --preset gpt2 --dtype "$dtype" --positions 10,1000
done
train char-cpu --preset char-cpu --batch 12 --context 64
train stories --preset stories
train llama-tiny --preset llama-tiny
train char-gpu-bf16 --preset char-gpu --dtype bf16
train growth --preset gpt2 --context 1024 --dtype bf16 --batches 1,2,4,8,16

[[ tokenizer == *"${ONLY:-}"* ]] || exit 0
if ! "$folio" tokenizer info --tokenizer "$tokenizer" >/dev/null; then
  echo "bench: the tokenizer is left out" >&2
  exit 0
fi
if [[ -z ${FILES:-} ]]; then
  mkdir -p build/bench
  find /usr/share/common-licenses -type f -print0 | sort -z | xargs -0 cat >build/bench/english.txt
  find /usr/share/perl -name '*.p[lm]' -type f -print0 | sort -z | xargs -0 cat >build/bench/code.txt
  FILES="build/bench/code.txt build/bench/english.txt"
fi
files=()
for file in $FILES; do files+=(--file "$file"); done
row tokenizer bench tokenizer --tokenizer "$tokenizer" "${files[@]}"
# Scripts of which there is no text at hand: invented, to compare two builds by.
row tokenizer-invented bench tokenizer --tokenizer "$tokenizer" \
  --language chinese --language japanese --language russian

# From the start of the program to the tokens of 1 KB of text: the median of 21.
text=$(head -c 1000 README.md)
for _ in {1..21}; do
  begin=${EPOCHREALTIME/[.,]/}
  "$folio" tokenizer encode --tokenizer "$tokenizer" <<<"$text" >/dev/null
  echo $((${EPOCHREALTIME/[.,]/} - begin))
done | sort -n | awk 'NR == 11 { printf "{\"row\": \"start\", \"seconds\": %.6f}\n", $1 / 1e6 }'
