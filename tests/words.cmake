# Reads the C++ below ROOT and fails on a comment that begins with What, Whether, Who, Those, Of or Nor, on a variable,
# parameter or member with the name `of`, and on a comment that names a file that is not there.
#   cmake -DROOT=DIR -DSCRATCH=DIR -P words.cmake

cmake_minimum_required(VERSION 3.25)

set(sources "")
set(paths "")
foreach(place src tests python cmake scripts docs install examples web)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${place}/*)
  list(APPEND paths ${files})
endforeach()
file(GLOB files RELATIVE ${ROOT} ${ROOT}/*)
list(APPEND paths ${files})
set(sources ${paths})
list(FILTER sources INCLUDE REGEX "^(src|tests|python)/.*\\.(h|cc|c)$")
if(NOT sources)
  message(FATAL_ERROR "no sources below ${ROOT}")
endif()

find_program(awk NAMES awk REQUIRED)
file(MAKE_DIRECTORY ${SCRATCH})
string(REPLACE ";" "\n" lines "${paths}")
file(WRITE ${SCRATCH}/paths "${lines}\n")
execute_process(COMMAND ${awk} -v paths=${SCRATCH}/paths -f ${CMAKE_CURRENT_LIST_DIR}/words.awk ${sources}
                WORKING_DIRECTORY ${ROOT} OUTPUT_VARIABLE mistakes RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR mistakes)
  message("${mistakes}")
  message(FATAL_ERROR "comments that are no clauses with a subject, or names that say nothing")
endif()
