# What folio.h promises stays promised: programs that were built against the last release go on with this libfolio.so.
# The header's declarations become a library of empty functions, whose types abidiff compares with those of the release
# (src/folio/c/folio.abi); functions may be added, nothing else. And the library has the header's functions, all and no other.
#   cmake -DHEADER=folio.h -DBASELINE=folio.abi -DLIBRARY=libfolio.so -DSCRATCH=DIR [-DUPDATE=ON] -P abi_test.cmake
# UPDATE writes the baseline: at a release, and before 1.0 with a change that the changelog tells.

cmake_minimum_required(VERSION 3.25)
find_program(ABIDIFF abidiff)
find_program(CC cc)
find_program(NM nm)
if(NOT ABIDIFF OR NOT CC OR NOT NM)
  message("skipped: abidiff (Debian's abigail-tools), cc and nm are not all here")
  return()
endif()

function(run out)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${SCRATCH})
file(READ ${HEADER} text)
string(REGEX REPLACE "(\nFOLIO_API [^;]*\\));" "\\1 { __builtin_trap(); }" text "${text}")
file(WRITE ${SCRATCH}/functions.c "${text}")
run(ignored ${CC} -std=c99 -g -ffile-prefix-map=${SCRATCH}/= -shared -fPIC -Wl,-soname,libfolio.so.0 ${SCRATCH}/functions.c -o ${SCRATCH}/functions.so)
if(UPDATE)
  find_program(ABIDW abidw REQUIRED)
  run(ignored ${ABIDW} --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash --out-file ${BASELINE}
      ${SCRATCH}/functions.so)
  return()
endif()
execute_process(COMMAND ${ABIDIFF} --no-added-syms --no-architecture ${BASELINE} ${SCRATCH}/functions.so RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "folio.h is not what it was:\n${output}")
endif()

foreach(of ${LIBRARY} ${SCRATCH}/functions.so)
  run(symbols ${NM} --dynamic --defined-only --format=posix ${of})
  string(REGEX MATCHALL "folio_[a-z_0-9]+" names "${symbols}")
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  set(names_of_${of} "${names}")
endforeach()
if(NOT names_of_${LIBRARY} STREQUAL "${names_of_${SCRATCH}/functions.so}")
  message(FATAL_ERROR "the library has\n${names_of_${LIBRARY}}\nand folio.h declares\n${names_of_${SCRATCH}/functions.so}")
endif()
