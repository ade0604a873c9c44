#!/usr/bin/env bash
# Writes the tutorial anew with the numbers and figures of the program.
#   scripts/docs.sh FOLIO OUT
# takes docs/attention.md and writes OUT/attention.md and OUT/figures/. Between a line
#   <!-- folio ARGUMENTS -->
# and the next line <!-- end --> it puts what `folio ARGUMENTS` prints. It draws every form that `folio
# explain attention` knows and keeps the figures that the text shows. The reference backend computes, so that the
# digits do not depend on the processor.
set -euo pipefail

if [[ $# -ne 2 ]]; then
  echo "usage: scripts/docs.sh FOLIO OUT" >&2
  exit 2
fi
folio="$(realpath "$1")"
mkdir -p "$2"
out="$(realpath "$2")"
cd "$(dirname "$0")/.."
source=docs/attention.md

run() {
  env -i PATH="$PATH" LC_ALL=C.UTF-8 COLUMNS=96 "$folio" "$@" --backend reference --no-config \
    --color never
}

drawn="$(mktemp -d)"
trap 'rm -rf "$drawn"' EXIT

skipping=0
line_number=0
while IFS= read -r line; do
  line_number=$((line_number + 1))
  if [[ "$line" == '<!-- end -->' ]]; then
    if [[ $skipping -eq 0 ]]; then
      echo "docs: $source:$line_number: an end without a command" >&2
      exit 1
    fi
    skipping=0
  fi
  [[ $skipping -eq 1 ]] || printf '%s\n' "$line"
  if [[ "$line" =~ ^'<!-- folio '(.*)' -->'$ ]]; then
    read -r -a arguments <<<"${BASH_REMATCH[1]}"
    echo '```text'
    run "${arguments[@]}"
    echo '```'
    skipping=1
  fi
done <"$source" >"$drawn/attention.md"
if [[ $skipping -eq 1 ]]; then
  echo "docs: $source: the last command has no <!-- end -->" >&2
  exit 1
fi

# figures/attention-FORM-STEP.svg
forms=(no-weights single-head causal stacked split cross grouped)
for form in "${forms[@]}"; do
  run explain attention --form "$form" --rng torch --svg "$drawn/$form" >/dev/null 2>&1
  for figure in "$drawn/$form"/*.svg; do
    step="$(basename "$figure")"
    mkdir -p "$drawn/figures"
    mv "$figure" "$drawn/figures/attention-$form-${step#attention-??-}"
  done
done
rm -rf "$out/figures"
mkdir -p "$out/figures"
while IFS= read -r figure; do
  if [[ ! -f "$drawn/figures/$figure" ]]; then
    echo "docs: $source shows figures/$figure, which the program does not draw; it draws:" >&2
    ls "$drawn/figures" >&2
    exit 1
  fi
  cp "$drawn/figures/$figure" "$out/figures/"
done < <(grep -o 'figures/[a-z0-9-]*\.svg' "$source" | sed 's#figures/##' | sort -u)
mv "$drawn/attention.md" "$out/attention.md"
