# Gives concepts.cmake small houses with one mistake each, and one without; fails unless it tells
# them apart.
#   cmake -DSCRATCH=DIR -P concepts_test.cmake

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/mistakes.cmake)

# Runs the check on a page of this text; `expected` is a piece of its message, or "" for silence.
function(check page expected)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/src/folio/model/gpt.h "")
  file(WRITE ${SCRATCH}/Makefile "")
  file(WRITE ${SCRATCH}/docs/architecture.md "${page}")
  expect_mistake(concepts "the page" "${expected}" -DROOT=${SCRATCH})
endfunction()

set(heading "# Page\n\n| other | table |\n\n## Where to find what\n\n| Concept | Where |\n| --- | --- |\n")
string(REPEAT "| a model | `model/gpt.h` |\n" 39 rows)
set(last "| building | `Makefile`, `src/folio/model` |\n")
set(after "\n## Another\n\n| x | `gone` |\n")

check("${heading}${rows}${last}${after}" "")
check("${heading}${rows}${after}" "39 rows")
check("${heading}${rows}| a | `model/gone.h` |\n" "model/gone.h is not there")
check("${heading}${rows}| a | `model/gpt.h` and `gone` |\n" "gone is not there")
check("${heading}${rows}| a | model/gpt.h |\n" "no path")
check("## Elsewhere\n${rows}${last}" "0 rows")
