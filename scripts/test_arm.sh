#!/usr/bin/env bash
# Compiles the rooms text and backend for 64-bit Arm and runs of their tests those that take seconds under qemu, in a root of
# Debian 12 that is made below build/roots. As root, with debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian_root.sh
if [[ ! -e "$roots/arm.made" ]]; then
  new_root bookworm arm
  inside arm '
    dpkg --add-architecture arm64
    apt-get update -q
    apt-get install --no-install-recommends -y -q cmake ninja-build ccache g++-aarch64-linux-gnu qemu-user-static nlohmann-json3-dev \
      libhwy-dev:arm64 libfmt-dev:arm64 libtomlplusplus-dev:arm64 libxxhash-dev:arm64 \
      libcurl4-openssl-dev:arm64 nettle-dev:arm64 libpng-dev:arm64 zlib1g-dev:arm64 libarchive-dev:arm64 libboost-dev:arm64 \
      libedit-dev:arm64 libseccomp-dev:arm64 libgtest-dev:arm64 libpugixml-dev:arm64'
  touch "$roots/arm.made"
fi
SHARED=1 inside arm '
  cmake --preset arm64 --log-level=WARNING
  cmake --build --preset arm64 -j "$JOBS"
  run() { GTEST_BRIEF=1 GTEST_FILTER="$2" qemu-aarch64-static "build/arm64/src/folio/$1/folio_$1_test"; }
  run text "Nfc.*:Unicode.*:CharTokenizer.*:ByteTokenizer.*:BpeModelProper.*:PairMerger.*:MergeQueue.*:BpeVocab.*"
  run backend "MatMul.Tiles*:BlockedWeights.*:AttentionInTiles.*:Bf16KernelThreads.*:CheckedBackend.*:Finite.*:StoredEmbeddings.*"'
