#!/usr/bin/env bash
# `folio train` on three ranks of this machine, of which a random one is killed at a random moment, again and again; each
# time --resume goes on, with another number of ranks. In the end there are the bytes of a process that nobody disturbed.
#   tests/cluster/kills_test.sh build/release/folio [KILLS]
# Without mpirun it says so, and the status is 77.
set -euo pipefail
folio="$(realpath "${1:?usage: tests/cluster/kills_test.sh FOLIO [KILLS]}")"
kills="${2:-50}"
if ! command -v mpirun.openmpi >/dev/null || [[ ! -e ${folio%/*}/folio_mpi_openmpi.so ]]; then
  echo "skipped: no mpirun.openmpi, or folio was built without it"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_hwloc_base_binding_policy=none

dir="$(mktemp -d)"
trap 'pkill -KILL -f "$dir/run" || true; rm -rf "$dir"' EXIT
"$folio" data stories --out "$dir/text.txt" >/dev/null 2>&1
flags=(--data "$dir/text.txt" --tokenizer bytes --batch 2 --grad-accumulation 6 --context 32 --threads 1
  --set model.n_layer=2 model.n_head=2 model.n_embd=32 train.eval_every=200 train.eval_batches=2
  train.checkpoint_every=10 train.decay_steps=1000000)

# The step of the last checkpoint; -1 before the first.
saved_step() {
  sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "$dir/run/last/train_state/state.json" 2>/dev/null | head -1 || true
}

killed=0
for ((round = 0; killed < kills; ++round)); do
  ranks=$((2 + round % 2))
  before="$(saved_step)"
  begin=("${flags[@]}" --max-steps 1000000)
  [[ -z $before ]] || begin=(--resume)
  mpirun.openmpi -n "$ranks" "$folio" train "${begin[@]}" --out "$dir/run" </dev/null >"$dir/log" 2>&1 &
  job=$!
  # Until a checkpoint has come, and for a random moment more.
  until [[ $(saved_step) != "$before" ]]; do
    kill -0 "$job" 2>/dev/null || { cat "$dir/log"; echo "round $round: it has ended by itself" >&2; exit 1; }
    sleep 0.02
  done
  sleep "0.$((RANDOM % 900 + 100))"
  mapfile -t pids < <(pgrep -f "^$folio train .*$dir/run")
  kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
  status=0
  wait "$job" || status=$?
  [[ $status -ne 0 ]] || { echo "round $round: the status of a killed run is 0" >&2; exit 1; }
  if pgrep -f "^$folio train .*$dir/run" >/dev/null; then
    echo "round $round: a rank is left" >&2
    exit 1
  fi
  killed=$((killed + 1))
done
last=$(($(saved_step) / 10 * 10 + 20))
mpirun.openmpi -n 2 "$folio" train --resume --max-steps "$last" --out "$dir/run" </dev/null >"$dir/log" 2>&1
"$folio" train "${flags[@]}" --max-steps "$last" --out "$dir/alone" </dev/null >"$dir/log" 2>&1
for file in model.safetensors train_state/optimizer.safetensors; do
  cmp "$dir/run/last/$file" "$dir/alone/last/$file"
done
echo "$killed kills in $last steps: the bytes of one process"
