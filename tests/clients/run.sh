#!/usr/bin/env bash
# Looks at `folio serve` with the programs that people use: OpenAI's client for Python, curl, and an
# evaluation by log-probabilities.
#   tests/clients/run.sh build/release/folio
# $FOLIO_PYTHON names a Python that has the package `openai` (python3 if it is not set). Where that or curl is
# missing nothing is tested and the status is 77.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
program="${1:?usage: tests/clients/run.sh FOLIO}"
python="${FOLIO_PYTHON:-python3}"

if ! "$python" -c "import openai" 2>/dev/null || ! command -v curl >/dev/null; then
  echo "skipped: needs curl, and a Python with openai:" >&2
  echo "  python3 -m venv DIR && DIR/bin/pip install openai, then FOLIO_PYTHON=DIR/bin/python" >&2
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
unset OPENAI_API_KEY OPENAI_BASE_URL OPENAI_ORG_ID OPENAI_PROJECT_ID http_proxy https_proxy all_proxy ALL_PROXY
export NO_PROXY=127.0.0.1
"$python" "$here/openai_client.py" "$program"
"$python" "$here/evaluation.py" "$program" "$here/../../README.md"
