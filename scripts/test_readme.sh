#!/usr/bin/env bash
# Types the commands of README.md and of the pages in docs/ that go on from it, those of their sh blocks, one after the
# other in an empty directory, as somebody does who follows them: each must succeed, so that whatever it names was made by
# one before it. Training ends after a second (train.max_time by its environment variable), and what mpirun
# and srun would start on several ranks is done by one. scripts/test_readme.sh FOLIO [PAGE...]
set -uo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
folio="$(realpath "${1:?usage: scripts/test_readme.sh FOLIO [PAGE...]}")"
shift
pages=("$@")
if (($# == 0)); then
  pages=("$here"/README.md "$here"/docs/{training,writing,models,tokenizers,looking,machines,cookbook}.md)
fi
mapfile -t pages < <(realpath "${pages[@]}")

# What is not typed here, and why.
skip() {
  case "$1" in
    make\ * | export\ PATH=*) echo "builds the program" ;;
    folio\ fetch\ * | folio\ tokenizer\ fetch\ * | folio\ data\ fetch\ *) echo "needs the network" ;;
    *--tokenizer\ gpt2* | *--model\ gpt2* | *smollm2-135m* | *runs/taught*) echo "needs what was fetched" ;;
    folio\ chat\ *) echo "needs a terminal" ;;
    *) return 1 ;;
  esac
}

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/home" "$scratch/work"
ln -s "$folio" "$scratch/bin/folio"
unset "${!FOLIO_@}"
export PATH="$scratch/bin:$PATH" HOME="$scratch/home" FOLIO_TRAIN_MAX_TIME=1s
cd "$scratch/work"

typed=0 skipped=0 failed=0
type_it() {  # COMMAND
  local command="$1" why begin=$SECONDS
  if why="$(skip "$command")"; then
    echo "skipped ($why): ${command%%$'\n'*}"
    skipped=$((skipped + 1))
    return
  fi
  case "$command" in  # by one rank
    mpirun\ -n\ * | srun\ -n\ *) command="folio ${command#*folio }" ;;
  esac
  typed=$((typed + 1))
  if (eval "$command") < /dev/null > "$scratch/said" 2>&1; then
    echo "$((SECONDS - begin)) s: ${command%%$'\n'*}"
  else
    echo "FAILED with $?: $command"
    tail -n 12 "$scratch/said"
    failed=$((failed + 1))
  fi
}

in_block=0 command=""
while IFS= read -r line; do
  case "$line" in
    '```sh') in_block=1 ;;
    '```'*)
      [[ $in_block == 1 && -n "$command" ]] && { echo "FAILED: unfinished: $command"; failed=$((failed + 1)); }
      in_block=0 command=""
      ;;
    *)
      [[ $in_block == 1 ]] || continue
      command+="${command:+$'\n'}$line"
      # A command goes on behind a backslash, and inside of quotation marks.
      [[ "$line" == *\\ ]] && continue
      bash -n -c "$command" 2> /dev/null || continue
      [[ "$command" =~ [^[:space:]] ]] && type_it "$command"
      command=""
      ;;
  esac
done < <(cat "${pages[@]}")

echo "$typed commands typed, $skipped skipped, $failed failed"
((failed == 0 && typed > 0))
