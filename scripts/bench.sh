#!/usr/bin/env bash
# The benchmarks of training, as JSON lines on stdout. Run them on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."

folio=build/release/folio
"$folio" bench matmul --json
"$folio" bench train --preset char-cpu --batch 12 --context 64 --json
"$folio" bench train --preset gpt2 --batch 4 --context 64 --json
