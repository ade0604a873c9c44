#!/usr/bin/env bash
# Makes the built-in stories, trains a small model on them for about a minute, and shows what it
# writes. Leaves runs/demo/ with checkpoints, metrics.jsonl and loss.svg.
set -euo pipefail
cd "$(dirname "$0")/.."

folio=build/release/folio
stories=build/demo/stories.txt
mkdir -p build/demo

"$folio" data stories --out "$stories" --bytes 4000000 --overwrite
"$folio" train --data "$stories" --preset stories --out runs/demo --overwrite
echo
echo 'What it writes after "Once upon a time":'
echo
"$folio" generate --model runs/demo --prompt 'Once upon a time' --temperature 0.5 --seed 1 \
  --max-tokens 600
echo
echo "Loss curves: runs/demo/loss.svg. More text: $folio generate --model runs/demo"
