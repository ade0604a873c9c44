#!/usr/bin/env bash
# Runs the tests of a preset, names those that were skipped and counts all: scripts/test.sh PRESET
set -euo pipefail
cd "$(dirname "$0")/.."

preset="${1:?usage: scripts/test.sh PRESET}"
results="$PWD/build/$preset/tests.xml"  # a file of GoogleTest's for each process, and ctest's own
rm -rf "$results"
mkdir "$results"

# Tests write thousands of small files, and whoever flushes one waits for the disk: half of the time of all tests. They do
# so in memory where there is enough of it; those of room io and of the README use the disk all the same.
if [[ -z "${TMPDIR:-}" && -w /dev/shm && "$(df --output=avail -B1M /dev/shm | tail -n 1)" -gt 4000 ]]; then
  TMPDIR="$(mktemp -d /dev/shm/folio-tests-XXXXXX)"
  trap 'rm -rf "$TMPDIR"' EXIT
  export TMPDIR TEST_TMPDIR="$TMPDIR"
fi
status=0
ctest --preset "$preset" --output-junit "$results/ctest.junit" || status=$?

# An entry of ctest's without a file is one test; with one, its file counts. A process that fails
# though all of its tests passed counts as a failed test.
awk '
  function Value(name) { return match($0, name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3) : "" }
  /<testcase/ && FILENAME ~ /\.junit$/ {
    program = Value(" name")
    gsub("/", ".", program)
    result = Value(" status")
    if (result == "notrun") print "skipped: " program
    if (!(program in failures)) ++count[result == "run" ? "passed" : result == "notrun" ? "skipped" : "failed"]
    else if (Value(" status") != "run" && failures[program] == 0) ++count["failed"]
  }
  /<testsuites/ && FILENAME ~ /\.xml$/ {
    program = FILENAME
    gsub(/.*\/|\.xml$/, "", program)
    failures[program] = Value(" failures")
  }
  /<testcase/ && FILENAME ~ /\.xml$/ {
    result = Value(" result")
    if (result == "skipped") { ++count["skipped"]; print "skipped: " Value(" classname") "." Value(" name") }
    if (result == "completed") ++count[/\/>$/ ? "passed" : "failed"]
  }
  END { printf "%d passed, %d failed, %d skipped\n", count["passed"], count["failed"], count["skipped"] }
' $(find "$results" -type f -name '*.xml') "$results/ctest.junit"
exit "$status"
