#!/usr/bin/env bash
# Draws the figures that README.md shows, docs/demo/*.svg and a picture of the page, of the model that `make demo`
# trains and of one whose tokens are words; trains them if they are not there. Their numbers depend on the processor, so
# no test compares them. The picture needs what the page's tests need (scripts/bootstrap.sh web); without it the old
# one stays.
set -euo pipefail
cd "$(dirname "$0")/.."

folio=build/release/folio
out=docs/demo
[[ -d runs/demo/best ]] || scripts/demo.sh
mkdir -p "$out"
"$folio" plot runs/demo --keys loss,val_loss --smooth 0.9 --out "$out/loss.svg" >/dev/null
"$folio" inspect attention --model runs/demo --text 'One day, a little fox' \
  --svg "$out/attention.svg" >/dev/null
"$folio" inspect lens --model runs/demo --text 'Once upon a time' --svg "$out/lens.svg" >/dev/null

if command -v npm >/dev/null && [[ -x ${CHROMIUM:-/usr/bin/chromium} ]]; then
  stories=build/demo/stories.txt words=build/demo/words
  [[ -f $stories ]] || { mkdir -p build/demo && "$folio" data stories --out "$stories" --bytes 4000000; }
  [[ -d runs/words/best ]] || {
    "$folio" tokenizer train "$stories" --vocab-size 1000 --out "$words" --overwrite
    "$folio" train --data "$stories" --tokenizer "$words" --preset stories --max-steps 1500 --out runs/words
  }
  npm ci --prefix web --silent --no-audit --no-fund
  node web/picture.mjs runs/words "$out/page.png"
else
  echo "demo_figures: $out/page.png stays: no npm or no chromium (scripts/bootstrap.sh web)" >&2
fi
