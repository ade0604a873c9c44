#!/usr/bin/env bash
# Runs the fuzz targets over what they have found (build/fuzz/corpus) and tests/fuzz/corpus, and says how
# much of each parser that reaches: lines, and branches, file by file.
set -euo pipefail
cd "$(dirname "$0")/.."

build="$PWD/build/coverage"
profiles="$build/profiles"
rm -rf "$profiles"
mkdir -p "$profiles"
mapfile -t targets < <(find "$build/tests/fuzz" -name '*_fuzz' -type f | sort)
for target in "${targets[@]}"; do
  name="$(basename "$target")"
  mkdir -p "build/fuzz/corpus/$name"
  LLVM_PROFILE_FILE="$profiles/$name.profraw" "$target" -runs=0 -verbosity=0 -rss_limit_mb=4096 \
    "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
done
llvm-profdata merge -sparse "$profiles"/*.profraw -o "$profiles/all.profdata"

# What reads bytes that may come from anybody.
parsers=(corpus/text_stream.cc
  data/{dataset,token_file}.cc eval/cloze.cc
  formats/{gguf_model,llmc,model_formats,nanochat,nanogpt,openai}.cc
  io/{decompress,gguf,json,pickle,safetensors}.cc
  io/{settings,tensor_file,tf_bundle,torch_file}.cc
  model/{checkpoint,config,lora}.cc
  text/{bpe_vocab,char_tokenizer,split,tokenizer_file,tokenizer_json,vocab_files}.cc
  train/{run_log,train_state}.cc)
llvm-cov report "${targets[0]}" "${targets[@]:1}" -object "${targets[0]}" \
  -instr-profile "$profiles/all.profdata" "${parsers[@]/#/src/folio/}" --show-region-summary=false \
  --show-functions=false 2>/dev/null
