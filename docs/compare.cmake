# Fails if the tutorial in the repository (KEPT) is not the one that the program wrote (BUILT).

cmake_minimum_required(VERSION 3.25)

set(how "'make docs' writes it anew; look at the difference before it is committed")
file(GLOB kept RELATIVE ${KEPT} ${KEPT}/figures/*.svg)
file(GLOB built RELATIVE ${BUILT} ${BUILT}/figures/*.svg)
if(NOT kept STREQUAL built)
  message(FATAL_ERROR "docs/figures holds ${kept}, the program draws ${built}: ${how}")
endif()
if(NOT built)
  message(FATAL_ERROR "the tutorial has no figures")
endif()
foreach(file attention.md ${built})
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${KEPT}/${file} ${BUILT}/${file}
                  RESULT_VARIABLE differs)
  if(differs)
    message(FATAL_ERROR "docs/${file} is not what the program prints: ${how}")
  endif()
endforeach()
