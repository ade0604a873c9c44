#!/usr/bin/env bash
# examples/slurm/train.sbatch under a real Slurm on two machines (slurm.sh), with each MPI that is here: what it trains
# over signals, preemption, requeues and the ends of its time has the bytes of one process.
#   tests/cluster/slurm_test.sh build/release/folio
# What is missing is named, and the status is 77.
set -euo pipefail
folio="$(realpath "${1:?usage: tests/cluster/slurm_test.sh FOLIO}")"
cd "$(dirname "$0")/../.."
# shellcheck source=tests/cluster/hosts.sh
. tests/cluster/hosts.sh
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
# shellcheck source=tests/cluster/training.sh
. tests/cluster/training.sh

slurm_need
hosts=(host1 host2)
steps=300
hosts_up "${#hosts[@]}" 1000 10
slurm_up "${#hosts[@]}" 4
# The way in which srun starts ranks of this MPI.
kinds=()
while read -r kind start; do
  if on host1 srun --mpi=list 2>&1 | grep -qw "$start" && [[ -e ${folio%/*}/folio_mpi_$kind.so ]]; then
    kinds+=("$kind $start")
  else
    echo "skipped: no srun --mpi=$start, or folio was built without $kind"
  fi
done <<<$'openmpi pmix\nmpich pmi2'
[[ ${#kinds[@]} -gt 0 ]] || exit 77

make_text
read -ra flags < <(training_flags "$steps")
run_alone "$hosts_dir/alone" "${flags[@]}"

# submit RUN START ARGS...: the example, for four ranks on two machines; sets $job and $log. ARGS are sbatch's, up to
# a --, and then flags of the training.
submit() {
  local run="$1" start="$2" options=()
  shift 2
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  log="$run.log"
  job="$(on host1 env FOLIO="$folio" RUN="$run" SLURM_MPI_TYPE="$start" sbatch --parsable \
    --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --output="$log" "${options[@]}" examples/slurm/train.sbatch "$@")"
}

job_state() {
  on host1 scontrol show job --oneliner "$job" | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p'
}
job_is() {
  [[ $(job_state) =~ ^($1)$ ]]
}
# The same, of a job that is put back: by itself it would wait for two minutes, here until nothing is left of it.
job_comes_to() {
  if job_is PENDING && none_left slurmstepd; then
    on host1 scontrol update "JobId=$job" StartTime=now 2>/dev/null || true
  fi
  job_is "$1"
}
restarted() {
  on host1 scontrol show job --oneliner "$job" | grep -q " Restarts=$1 "
}
# ends_as STATE SECONDS: false if it does not.
ends_as() {
  hosts_wait "$2" job_comes_to "COMPLETED|FAILED|CANCELLED|NODE_FAIL|TIMEOUT|PREEMPTED" || true
  job_is "$1" || {
    wrong "the job is $(job_state), not $1" "$log"
    on host1 scancel --full "$job" || true
    hosts_wait 30 none_left folio || true
    return 1
  }
}
none_left() {
  local host
  for host in "${hosts[@]}"; do
    [[ -z $(running "$host" "$1") ]] || return 1
  done
}
# goes_on RUN STEP RESTARTS: it has been put back into the queue so often, and is again at work beyond that step.
goes_on() {
  hosts_wait 60 restarted "$3" || wrong "it was not put back into the queue" "$log"
  hosts_wait 60 job_comes_to RUNNING || wrong "it was not started again" "$log"
  hosts_wait 60 past_step "$1" "$2" || wrong "it has not come past step $2" "$log"
}

for kind_start in "${kinds[@]}"; do
  read -r kind start <<<"$kind_start"
  run="$hosts_dir/run.$kind"

  test_begins "$kind: SIGUSR1 saves and goes on"
  submit "$run" "$start" -- "${flags[@]}" train.checkpoint_every=100000
  hosts_wait 60 past_step "$run" 5 || wrong "it has not begun" "$log"
  [[ ! -e $run/last ]] || wrong "there is a checkpoint before it was asked for"
  on host1 scancel --signal=USR1 "$job"
  hosts_wait 30 test -e "$run/last" || wrong "no checkpoint" "$log"
  goes_on "$run" $(($(step_of "$run") + 10)) 0

  test_begins "$kind: SIGTERM saves, and the job goes on in its next turn"
  on host1 scancel --signal=TERM "$job"
  goes_on "$run" $(($(step_of "$run") + 20)) 1
  grep -q "resuming at step" "$log" || wrong "it did not resume" "$log"

  test_begins "$kind: a more urgent job comes first"
  on host1 srun --quiet --partition=urgent --nodes=2 --ntasks-per-node=4 true || wrong "the other job has failed"
  goes_on "$run" $(($(step_of "$run") + 20)) 2

  test_begins "$kind: scontrol requeue"
  on host1 scontrol requeue "$job"
  goes_on "$run" $(($(step_of "$run") + 10)) 3

  test_begins "$kind: the bytes of one process"
  ends_as COMPLETED 240 && same_weights "$hosts_dir/alone" "$run"
  hosts_wait 5 none_left folio || wrong "processes are left"

  test_begins "$kind: over the end of its time"
  run="$hosts_dir/timed.$kind"
  submit "$run" "$start" --time=1 --signal=TERM@45 -- "${flags[@]}"
  ends_as COMPLETED 300 && same_weights "$hosts_dir/alone" "$run"
  restarted 0 && wrong "it had time enough: this tests nothing"

  test_begins "$kind: a rank is killed"
  run="$hosts_dir/killed.$kind"
  submit "$run" "$start" -- "${flags[@]}"
  hosts_wait 60 past_step "$run" 25 || wrong "it has not begun" "$log"
  on host2 pkill -KILL -o -x folio || wrong "no rank there"
  ends_as FAILED 20 || true
  hosts_wait 5 none_left folio || wrong "processes are left"
  submit "$run" "$start" --
  ends_as COMPLETED 240 && same_weights "$hosts_dir/alone" "$run"

  test_begins "$kind: a job that is cancelled stays so"
  run="$hosts_dir/cancelled.$kind"
  submit "$run" "$start" -- "${flags[@]}" train.checkpoint_every=100000
  hosts_wait 60 past_step "$run" 5 || wrong "it has not begun" "$log"
  on host1 scancel "$job"
  ends_as CANCELLED 30 || true
  hosts_wait 30 test -e "$run/last" || wrong "no checkpoint" "$log"
  hosts_wait 30 none_left folio || wrong "processes are left"
  job_is CANCELLED || wrong "it is $(job_state)"
done
tests_end
