#!/usr/bin/env bash
# Draws the figures that README.md shows, docs/demo/*.svg, of the model that `make demo` trains; trains it
# if it is not there. Their numbers depend on the processor, so no test compares them.
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
