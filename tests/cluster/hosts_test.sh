#!/usr/bin/env bash
# `folio train` on three machines (hosts.sh) with 1 Gbit/s and 20 ms between them, under each MPI that is here: it
# leaves the bytes of one process, and ends soon and everywhere, with a message, where a rank is killed, stopped or
# cut off; then --resume goes on as if nothing had been.
#   tests/cluster/hosts_test.sh build/release/folio
# What is missing is named, and the status is 77.
set -euo pipefail
folio="$(realpath "${1:?usage: tests/cluster/hosts_test.sh FOLIO}")"
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/hosts.sh
. tests/cluster/hosts.sh
# shellcheck source=tests/cluster/training.sh
. tests/cluster/training.sh

kinds=()
for kind in openmpi mpich; do
  if command -v "mpirun.$kind" >/dev/null && [[ -e ${folio%/*}/folio_mpi_$kind.so ]]; then
    kinds+=("$kind")
  else
    echo "skipped: no mpirun.$kind, or folio was built without it"
  fi
done
[[ ${#kinds[@]} -gt 0 ]] || exit 77

hosts=(host1 host2 host3)
steps=60
hosts_up "${#hosts[@]}" 1000 20
make_text
read -ra flags < <(training_flags "$steps")
run_alone "$hosts_dir/alone" "${flags[@]}"

# begin_ranks KIND ARGS...: in the background; sets $job and $log.
begin_ranks() {
  local kind="$1"
  shift
  log="$hosts_dir/$kind.log"
  mpirun_on "$kind" "${hosts[*]}" "$folio" train "$@" </dev/null >"$log" 2>&1 &
  job=$!
}

job_ended() {
  ! kill -0 "$job" 2>/dev/null
}

# end_ranks SECONDS: waits for them; sets $status.
end_ranks() {
  if hosts_wait "$1" job_ended; then
    status=0
    wait "$job" || status=$?
  else
    wrong "it has not ended in $1 s" "$log"
    status=0
  fi
}

none_left() {
  local host
  for host in "${hosts[@]}"; do
    [[ -z $(running "$host") ]] || return 1
  done
}

# Ends what should have ended, so that the next test can begin.
sweep() {
  local host
  for host in "${hosts[@]}"; do
    read -ra left < <(running "$host" | tr '\n' ' ') || true
    if [[ ${#left[@]} -gt 0 ]]; then
      on "$host" kill -KILL "${left[@]}" || true
    fi
  done
  wait "$job" 2>/dev/null || true
}

# strike KIND RUN NAME SECONDS MESSAGE COMMAND...: lets the run come past its next checkpoint and does COMMAND with
# the number of the process of the last rank; then all must end in so many seconds.
strike() {
  local kind="$1" run="$2" name="$3" seconds="$4" message="$5" at pid begun host=host3
  shift 5
  test_begins "$kind: $name"
  at=$(($(step_of "$run") / 10 * 10 + 14))
  if [[ -d $run ]]; then
    begin_ranks "$kind" --resume --out "$run"
  else
    begin_ranks "$kind" --out "$run" "${flags[@]}"
  fi
  hosts_wait 60 past_step "$run" "$at" || wrong "it has not come to step $at" "$log"
  pid="$(running "$host" folio)"
  begun=$SECONDS
  "$@" "$host" "$pid"
  end_ranks "$seconds"
  [[ $status -ne 0 ]] || wrong "the exit status is 0" "$log"
  grep -qE "$message" "$log" || wrong "no message like '$message'" "$log"
  hosts_wait $((begun + seconds - SECONDS)) none_left || {
    wrong "processes are left"
    for host in "${hosts[@]}"; do
      on "$host" ps -eo stat,args >&2
    done
  }
  # shellcheck disable=SC2034  # of training.sh
  test_note="all had ended after $((SECONDS - begun)) s"
  sweep
}

kill_rank() {
  on "$1" kill -KILL "$2"
}
stop_rank() {
  on "$1" kill -STOP "$2"
}
cut_off() {
  on "$1" ip link set eth0 down
}

for kind in "${kinds[@]}"; do
  run="$hosts_dir/run.$kind"
  test_begins "$kind: the bytes of one process"
  begin_ranks "$kind" --out "$run" "${flags[@]}"
  end_ranks 120
  [[ $status -eq 0 ]] || wrong "exit status $status" "$log"
  same_weights "$hosts_dir/alone" "$run"
  hosts_wait 5 none_left || wrong "processes are left"
  sweep

  run="$hosts_dir/struck.$kind"
  strike "$kind" "$run" "a rank is killed" 15 "rank 2|signal 9|EXIT CODE: 9" kill_rank
  strike "$kind" "$run" "a rank is stopped" 35 "rank 2 \(host3, process [0-9]+\)" stop_rank
  strike "$kind" "$run" "a machine is cut off" 35 "rank 2 \(host3, process [0-9]+\)" cut_off
  on host3 ip link set eth0 up
  hosts_wait 10 on host1 "$hosts_dir/ssh" host3 true

  test_begins "$kind: what was struck goes on to the same bytes"
  begin_ranks "$kind" --resume --out "$run"
  end_ranks 120
  [[ $status -eq 0 ]] || wrong "exit status $status" "$log"
  same_weights "$hosts_dir/alone" "$run"
  sweep
done
tests_end
