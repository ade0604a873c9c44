#!/usr/bin/env bash
# The tests of the Python package: makes the wheel, puts it into a fresh environment of each Python from 3.10 to 3.14 that is
# at hand, and has pytest run there; then mypy, and the notebook of examples/, once. Packages come from PyPI: where it is not
# reached, and where there is no such Python, the tests are skipped, and it says so.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

status=0
wheel="$(scripts/wheel.sh)" || status=$?
if [[ $status -eq 75 ]]; then
  echo "test_python: skipped"
  exit 0
fi
[[ $status -eq 0 ]] || exit "$status"
du -h "$wheel"

# Other Pythons of this machine: those on the path, and those of pyenv.
pythons=()
for minor in 10 11 12 13 14; do
  for candidate in "$(command -v "python3.$minor" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python; do
    if [[ -x $candidate ]] && "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
      pythons+=("$candidate")
      break
    fi
  done
done
[[ ${#pythons[@]} -gt 0 ]] || pythons=("$(command -v python3)")

last=""
for python in "${pythons[@]}"; do
  name="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  venv="build/python/test-$name"
  [[ -x $venv/bin/pytest ]] || { rm -rf "$venv"; "$python" -m venv "$venv"; "$venv/bin/pip" install --quiet pytest numpy nanobind-backend; }
  "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
  last="$venv"
done
for python in "${pythons[@]}"; do
  name="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  echo "test_python: Python $name"
  # The slow tests, which do not depend on the version, once.
  select=()
  [[ build/python/test-$name == "$last" ]] || select=(-m "not slow")
  "build/python/test-$name/bin/pytest" -q -p no:cacheprovider "${select[@]}" python/tests
done

if [[ ! -x $last/bin/mypy || ! -d $last/share/jupyter ]]; then
  "$last/bin/pip" install --quiet mypy nbclient nbformat ipykernel
fi
echo "test_python: types"
MYPYPATH="" "$last/bin/mypy" --strict --cache-dir build/python/mypy -p folio
"$last/bin/mypy" --strict --cache-dir build/python/mypy python/tests
echo "test_python: examples/first_model.ipynb"
"$last/bin/python" python/run_notebook.py examples/first_model.ipynb
