#!/usr/bin/env bash
# Sees to it that what folio is built from is installed.
#   scripts/bootstrap.sh build   compiler, CMake and libraries: enough for make build, test and demo
#   scripts/bootstrap.sh web     what the page of folio serve is made and tested with
#   scripts/bootstrap.sh packages  what make packages packs with
#   scripts/bootstrap.sh site    what make site reads headers with
#   scripts/bootstrap.sh cluster what make test-cluster puts several machines and their Slurm together from
#   scripts/bootstrap.sh checks  the same, clang with its sanitizers and coverage, clang-format, clang-tidy,
#                                two MPIs (folio finds whichever is there, and does without), and the proxies and systemd that
#                                folio serve is tested with
# On Debian and its descendants it installs what is missing, as root or through sudo, or prints the
# command that would and exits 1. Elsewhere it says what is needed.
set -euo pipefail

packages=(g++ cmake ninja-build ccache libhwy-dev libfmt-dev
  libtomlplusplus-dev libxxhash-dev libcurl4-openssl-dev nettle-dev libpng-dev zlib1g-dev
  libarchive-dev libboost-dev libedit-dev libseccomp-dev libgtest-dev nlohmann-json3-dev libpugixml-dev librsvg2-bin fonts-dejavu-core protobuf-compiler pkgconf)
case "${1:-build}" in
  build) ;;
  web)
    packages=(chromium)
    command -v npm >/dev/null || packages+=(nodejs npm)  # from wherever it came
    ;;
  checks) packages+=(clang clang-format clang-tidy libclang-rt-dev llvm libopenmpi-dev openmpi-bin
    libmpich-dev mpich abigail-tools caddy haproxy nginx systemd) ;;
  packages) packages=(patchelf dpkg-dev) ;;
  site) packages=(doxygen python3-venv) ;;
  cluster)
    packages=(iproute2 munge openssh-client openssh-server procps slurm-client slurm-wlm-basic-plugins slurmctld
      slurmd libopenmpi-dev openmpi-bin libmpich-dev mpich)
    ;;
  *)
    echo "usage: scripts/bootstrap.sh build|web|packages|site|cluster|checks" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  for tool in c++ cmake ninja; do
    if ! command -v "$tool" >/dev/null; then
      echo "bootstrap: this is not Debian; please install by hand: a C++20 compiler," >&2
      echo "  CMake 3.25 or later, Ninja, and the development files of" >&2
      echo "  Highway, fmt, toml++, xxHash, libcurl (7.85 or later), Nettle, zlib," >&2
      echo "  libpng, libarchive, Boost (1.74 or later), libedit, libseccomp, and for tests GoogleTest, nlohmann-json and pugixml ('$tool' is missing)." >&2
      exit 1
    fi
  done
  exit 0
fi

installed="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

if [[ "$(id -u)" -eq 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  echo "bootstrap: missing Debian packages: ${missing[*]}" >&2
  echo "bootstrap: they cannot be installed without root; please run" >&2
  echo "    sudo apt-get update && sudo apt-get install --no-install-recommends -y ${missing[*]}" >&2
  exit 1
fi

echo "bootstrap: installing ${missing[*]}" >&2
# The package lists of a fresh machine are empty or old.
"${as_root[@]}" apt-get update -q >&2 || echo "bootstrap: apt-get update failed; trying anyway" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --no-install-recommends -y -q "${missing[@]}" >&2
