#!/usr/bin/env bash
# The tests of the page: that web/dist is what web/src makes, its parts, and the whole of it in a browser against
# build/release/folio. They need node and npm, and Debian's chromium for the browser; what is missing is skipped,
# and it says so. SLOWER=5 gives the browser's pages a fifth of the processor, as on a slow machine.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "test_web: skipped: $1"
  exit 0
}
command -v npm >/dev/null || skip "no node with npm (scripts/bootstrap.sh web)"
npm ci --prefix web --silent --no-audit --no-fund
npm --prefix web run --silent check
npm --prefix web run --silent build
git diff --exit-code --stat -- web/dist || {
  echo "test_web: web/dist is not what web/src makes: commit it" >&2
  exit 1
}
if [[ ! -x ${CHROMIUM:=/usr/bin/chromium} ]]; then
  echo "test_web: skipped: the browser: no chromium at $CHROMIUM (scripts/bootstrap.sh web)"
  exec node --test web/test/modules.test.mjs
fi
[[ -x ${FOLIO:=build/release/folio} ]] || skip "no program at $FOLIO: make build"
FOLIO=$(realpath "$FOLIO")
export CHROMIUM FOLIO
exec node --test --test-concurrency=1 --test-timeout=600000 web/test/
