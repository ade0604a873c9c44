#!/usr/bin/env bash
# Proves that a change is a refactor: the program of commit BASE and build/release/folio do the same in many small
# configurations, to the bit.
#   scripts/same_bytes.sh [--program PATH] [--only NAME] [BASE]
# BASE is built aside, in build/same_bytes/, unless --program names its program; --only takes the configurations whose
# names have NAME in them. Each configuration is compared in:
#   init        the checkpoint after a step of learning rate 0
#   losses      metrics.jsonl without times; the run is resumed half-way
#   checkpoint  all files of last/, the optimizer's state among them
#   text        sampled tokens and their probabilities, beyond the context, for each dtype and with a cache of bf16
#   formats     the model as folio convert writes it for other programs, or why it does not
#   model       folio inspect model --json, in whatever order of its lines
#   plan        planned bytes: those of weights, gradients and moments are equal, all others no more than BASE's
# The status is 1 where anything differs; the first difference of each is named, and both sides stay in build/same_bytes/.
set -euo pipefail
cd "$(dirname "$0")/.."

base='' program='' only=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --program) program=${2:?needs a path} && shift ;;
    --only) only=${2:?needs a name} && shift ;;
    -*) base='' && break ;;
    *) base=$1 ;;
  esac
  shift
done
if [[ -z $base$program || $# -gt 0 ]]; then
  sed -n 's/^#   scripts/usage: scripts/p' scripts/same_bytes.sh >&2
  exit 2
fi

dir=$PWD/build/same_bytes
mkdir -p "$dir"
if [[ -z $program ]]; then
  base=$(git rev-parse --verify "$base^{commit}")
  source=$dir/$base
  if [[ ! -d $source ]]; then
    rm -rf "$source.new"
    mkdir "$source.new"
    git archive "$base" | tar -x -C "$source.new"
    mv "$source.new" "$source"
  fi
  (
    cd "$source"
    export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1  # what another checkout compiled is not compiled again
    [[ -e build/release/build.ninja ]] || cmake --preset release --log-level=WARNING
    cmake --build build/release --target folio
  )
  program=$source/build/release/folio
fi

# The settings that all configurations begin with, and the configurations: name, ranks, settings.
small=(model.n_layer=2 model.n_head=4 model.n_embd=64 model.n_positions=40 train.batch_size=3 train.threads=1
  train.dtype=fp32 train.warmup_steps=4 train.decay_steps=20 train.eval_every=10 train.eval_batches=2
  train.first_eval_batches=2 train.keep_last=1)
dropout='model.embd_pdrop=0.1 model.attn_pdrop=0.1 model.resid_pdrop=0.1 model.mlp_pdrop=0.1 model.sublayer_pdrop=0.1'
untied='model.tie_word_embeddings=false model.lm_head_bias=true'
odd='model.n_head=3 model.n_embd=51 model.n_inner=77 model.activation_function=relu
  model.scale_attn_by_inverse_layer_idx=true model.mlp_bias=false model.init_zero_positions=true'
lora='train.init=pre-norm/run lora.rank=3 lora.alpha=6 lora.targets=c_attn,c_fc,c_proj lora.dropout=0.1'
configurations="
pre-norm         1
post-norm        1 model.norm_position=post
sinusoidal       1 model.position_embedding=sinusoidal
no-biases        1 model.bias=false
untied           1 $untied
dropout          1 $dropout
recompute        1 train.recompute=true $dropout
bf16             1 train.dtype=bf16
lora             1 $lora
accumulation     1 train.grad_accumulation=3
threads-2        1 train.threads=2
conversations    1 data.tokenizer=bytes model.n_positions=320
odd-sizes        1 $odd
torch-rng        1 train.rng=torch
xavier           1 model.init=xavier_uniform_split model.init_scaled_residuals=mlp
both-ways        1 model.causal=false
reference        1 train.backend=reference model.norm_position=post $dropout
bf16-recompute   1 train.dtype=bf16 train.recompute=true model.norm_position=post $untied
ranks-2          2 train.grad_accumulation=4 train.reduce_every=2 $dropout
tensor-2         2 train.tensor_parallel=2 $dropout
tensor-2-untied  2 train.tensor_parallel=2 train.dtype=bf16 train.recompute=true model.norm_position=post $untied
ranks-2-lora     2 train.grad_accumulation=2 $lora
"

without_times() { sed -E 's/,?"(time|seconds|[a-z_]+_seconds|tokens_per_second)": ?[-0-9.e+]+//g'; }

# configure NAME RANKS SETTING...: trains and runs a configuration with ./folio and leaves in NAME/ all that is compared.
configure() {
  local name=$1 ranks=$2 data=stories.txt launch=()
  shift 2
  local set=(--set "${small[@]}" "$@")
  [[ $name != conversations ]] || data=questions.jsonl
  [[ $ranks == 1 ]] || launch=("${mpi[@]}" -n "$ranks")
  mkdir -p "$name"/{init,text,formats}

  "${launch[@]}" ./folio train --data $data --out "$name/first" "${set[@]}" train.max_steps=1 \
    train.learning_rate=0 train.min_lr=0
  cp -r "$name/first/last/." "$name/init"
  "${launch[@]}" ./folio train --data $data --out "$name/run" "${set[@]}" train.max_steps=10
  "${launch[@]}" ./folio train --resume --out "$name/run" --max-steps 20
  without_times <"$name/run/metrics.jsonl" >"$name/losses"
  cp -r "$name/run/last" "$name/checkpoint"

  local model=(--model "$name/checkpoint") dtype cache to
  if [[ -e $name/checkpoint/adapter_config.json ]]; then model=(--model pre-norm/run --adapter "$name/checkpoint"); fi
  for dtype in fp32 bf16 int8 int4; do
    for cache in '' --bf16-cache; do
      ./folio generate "${model[@]}" --prompt 'Once upon a time' --max-tokens 60 --n 2 --seed 1 --threads 1 $cache \
        --dtype $dtype --json --probabilities 2 | without_times >"$name/text/$dtype$cache" || true
    done
  done
  for to in hf gguf llmc nanogpt; do
    ./folio convert "${model[@]:1:1}" "$name/formats/$to" --to $to --threads 1 "${model[@]:2}" ||
      echo "no, status $?" >"$name/formats/$to"
  done
  ./folio inspect model --json "${model[@]:0:2}" | sed "s/,\$//" | LC_ALL=C sort >"$name/model"
  ./folio inspect plan --json --ranks "$ranks" "${set[@]}" model.vocab_size=61 >"$name/plan.json"
  grep -oE '"[a-z_]+_bytes": [0-9]+' "$name/plan.json" | tr -d '":' >"$name/plan"
}

# all SIDE: every configuration, in the directory of that side.
all() {
  local name ranks settings
  cd "$dir/$1"
  ./folio data stories --bytes 60000 --out stories.txt
  ./folio data stories --questions --bytes 40000 --out questions.jsonl
  while read -r name ranks settings; do
    # shellcheck disable=SC2086  # settings are words
    configure "$name" "$ranks" $settings </dev/null
  done <"$dir/chosen"
}

rm -rf "$dir/base" "$dir/new"
mkdir "$dir/base" "$dir/new"
for side in base new; do
  [[ $side == base ]] || program=build/release/folio
  cp "$program" "$dir/$side/folio"
  cp "${program%/*}"/folio_mpi_*.so "$dir/$side/" 2>/dev/null || true
done
mpi=()
for kind in openmpi mpich; do
  if [[ -e $dir/base/folio_mpi_$kind.so && -e $dir/new/folio_mpi_$kind.so ]] && command -v mpirun.$kind >/dev/null; then
    mpi=(mpirun.$kind)
    [[ $kind == mpich ]] || mpi+=(--allow-run-as-root --oversubscribe --bind-to none)
    break
  fi
done

# Adapters are trained beside pre-norm's model, so that it is always there.
while read -r name ranks settings; do
  [[ -n $name && (-z $only || $name == pre-norm || $name == *"$only"*) ]] || continue
  if [[ $ranks != 1 && ${#mpi[@]} -eq 0 ]]; then
    echo "$name: skipped, there is no mpirun or no plug-in for it" >&2
  else
    echo "$name $ranks $settings"
  fi
done <<<"${configurations//$'\n'  / }" >"$dir/chosen"

(all base) >"$dir/base/log" 2>&1 &
first=$!
(all new) >"$dir/new/log" 2>&1 &
second=$!
status=0
wait $first || { tail -n 5 "$dir/base/log" >&2 && echo "same_bytes: BASE's program failed, see $dir/base/log" >&2 && status=1; }
wait $second || { tail -n 5 "$dir/new/log" >&2 && echo "same_bytes: the program failed, see $dir/new/log" >&2 && status=1; }
[[ $status -eq 0 ]] || exit 1

# differs NAME ITEM: says what differs first, if anything does.
differs() {
  local old=base/$1/$2 new=new/$1/$2
  [[ -e $old && -e $new ]] || { echo "$old or $new is missing" && return; }
  if [[ $2 == plan ]]; then
    awk 'NR == FNR { old[$1] = $2; next }
         $2 > old[$1] || ($1 ~ /^(weights|gradients|optimizer)/ && $2 != old[$1]) {
           print $1 ": " old[$1] " in BASE, now " $2; exit }' "$old" "$new"
  else
    (diff -r -x SHA256SUMS "$old" "$new" || true) | head -n 4 | cut -c 1-200
  fi
}

cd "$dir"
items=(init losses checkpoint text formats model plan)
printf '%-16s' configuration && printf ' %-10s' "${items[@]}" && echo
while read -r name _; do
  printf '%-16s' "$name"
  found=''
  for item in "${items[@]}"; do
    difference=$(differs "$name" "$item")
    word=same
    [[ $item != plan ]] || cmp -s "$dir/base/$name/plan" "$dir/new/$name/plan" || word=less
    [[ $item != text ]] || grep -qr . "$dir/new/$name/text" || word=none
    if [[ -n $difference ]]; then
      word=DIFFERS
      found+="  $item: $difference"$'\n'
      status=1
    fi
    printf ' %-10s' "$word"
  done
  printf '\n%s' "$found"
done <"$dir/chosen"
exit $status
