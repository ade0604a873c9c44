#!/usr/bin/env bash
# Looks at the unit of systemd as systemd does: tests/systemd_unit.sh PROGRAM. Exits with 77 where there is no
# systemd-analyze.
set -euo pipefail
program="$1"
here="$(cd "$(dirname "$0")" && pwd)"
if ! command -v systemd-analyze >/dev/null; then
  echo "no systemd-analyze here"
  exit 77
fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
unit="$scratch/folio.service"
sed "s#@program@#$program#" "$here/../packaging/systemd/folio.service.in" >"$unit"

said="$(systemd-analyze verify --man=no "$unit" 2>&1)" || { echo "$said"; exit 1; }
if grep -F folio.service <<<"$said"; then
  exit 1  # a line that systemd leaves out
fi
# From 0, nothing is allowed, to 10; in tenths. A service that answers a network has 1.4.
systemd-analyze security --offline=true --threshold=20 "$unit" >"$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }

# The program takes the flags; only the files are missing (3).
sed -n "s#^ExecStart=$program ##p" "$unit" | sed "s#/srv/folio/#$scratch/#; s#/run/folio/#$scratch/#" >"$scratch/words"
read -ra words <"$scratch/words"
[[ "${words[0]}" == serve ]]
status=0
"$program" "${words[@]}" --port 0 >"$scratch/said" 2>&1 || status=$?
if [[ $status -ne 3 ]]; then
  echo "folio ${words[*]} ended with $status:"
  cat "$scratch/said"
  exit 1
fi
