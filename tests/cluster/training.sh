# shellcheck shell=bash
# What the tests of several ranks share; to be sourced after hosts.sh, with the program in $folio.
#   test_begins NAME         the name of what follows; at the end `tests_end` counts
#   wrong TEXT [FILE]        it failed, this is why, and that is its log
#   run_alone RUN ARGS...    the run that one process makes, with which the others are compared
#   same_weights A B         both runs have left the same bytes
: "${hosts_dir?is of hosts.sh}" "${folio?names the program}"
tests_passed=0
tests_failed=0
test_name=""
test_note=""  # told beside the time that it took
test_wrong=0

test_ends() {
  [[ -n $test_name ]] || return 0
  if ((test_wrong)); then
    ((++tests_failed))
    echo "failed: $test_name"
  else
    ((++tests_passed))
    echo "passed: $test_name ($((SECONDS - test_begun)) s${test_note:+; $test_note})"
  fi
  test_name=""
}

test_begins() {
  test_ends
  test_name="$1" test_note="" test_wrong=0 test_begun=$SECONDS
}

wrong() {
  test_wrong=1
  echo "$test_name: $1" >&2
  if [[ $# -gt 1 ]]; then
    tail -n 25 "$2" | sed 's/^/  /' >&2
  fi
}

tests_end() {
  test_ends
  echo "$tests_passed passed, $tests_failed failed"
  [[ $tests_failed -eq 0 ]]
}

# So small that steps take as long as the network does, with a checkpoint that is worth going on from every 10 steps.
training_flags() {
  echo --data "$hosts_dir/stories.txt" --tokenizer char --context 64 --batch 4 --grad-accumulation 12 --threads 1 \
    --max-steps "$1" --eval-every 25 --set model.n_layer=2 model.n_head=2 model.n_embd=64 train.checkpoint_every=10
}

make_text() {
  "$folio" data stories --bytes 100000 --out "$hosts_dir/stories.txt" -q
}

run_alone() {
  local run="$1"
  shift
  "$folio" train --out "$run" "$@" >"$run.log" 2>&1 || {
    echo "one process alone has failed:" >&2
    cat "$run.log" >&2
    exit 1
  }
}

# How far a run has come; 0 where it has not begun.
step_of() {
  local line
  line="$(tail -n 1 "$1/metrics.jsonl" 2>/dev/null)" || true
  [[ $line =~ \"step\":([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

past_step() {
  [[ $(step_of "$1") -ge $2 ]]
}

same_weights() {
  cmp "$1/last/model.safetensors" "$2/last/model.safetensors" || wrong "other bytes than those of one process"
}
