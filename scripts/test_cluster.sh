#!/usr/bin/env bash
# The tests of several ranks on machines of their own: with mpirun over a network, and under Slurm. They need root and
# what tests/cluster/hosts.sh and slurm.sh name; what is missing is skipped, and it says so.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
for test in kills hosts slurm; do
  echo "test_cluster: $test"
  result=0
  "tests/cluster/${test}_test.sh" build/release/folio || result=$?
  [[ $result -eq 0 || $result -eq 77 ]] || status=1
done
exit "$status"
