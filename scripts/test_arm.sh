#!/usr/bin/env bash
# Compiles the rooms text, backend and model for 64-bit Arm and runs of their tests those that take seconds under qemu, in a
# root of Debian 12 that is made below build/roots. As root, with debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian_root.sh
packages="cmake ninja-build ccache g++-aarch64-linux-gnu qemu-user-static nlohmann-json3-dev $(printf '%s-dev:arm64 ' libhwy libfmt \
  libtomlplusplus libxxhash libcurl4-openssl nettle libpng zlib1g libarchive libboost libedit libseccomp libgtest libpugixml)"
# What the root was made of is written down beside it, so that it follows when that changes.
if [[ "$(cat "$roots/arm.made" 2>/dev/null)" != "$packages" ]]; then
  [[ -s "$roots/arm.made" ]] || new_root bookworm arm
  inside arm "
    dpkg --add-architecture arm64
    apt-get update -q
    apt-get install --no-install-recommends -y -q $packages"
  printf '%s\n' "$packages" >"$roots/arm.made"
fi
SHARED=1 inside arm '
  cmake --preset arm64 --log-level=WARNING
  cmake --build --preset arm64 -j "$JOBS"
  run() { GTEST_BRIEF=1 GTEST_FILTER="$2" qemu-aarch64-static "build/arm64/src/folio/$1/folio_$1_test"; }
  run text "Nfc.*:Unicode.*:CharTokenizer.*:ByteTokenizer.*:BpeModelProper.*:PairMerger.*:MergeQueue.*:BpeVocab.*"
  run backend "MatMul.Tiles*:BlockedWeights.*:AttentionInTiles.*:Bf16KernelThreads.*:CheckedBackend.*:Finite.*:StoredEmbeddings.*"
  run model "*ModelGradients*/*_adapters:*ModelGradients*/*_one_kv_head"
  run model "-*ModelGradients*:*TensorParallel*:DecodingInWindows.*:*DecodingTogether.*:*InAnyByte*"'
