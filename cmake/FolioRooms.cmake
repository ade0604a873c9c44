# One library target per room: folio_room(base DEPS rooms... LIBS outside libraries...). It has all
# sources below the room's directory but main.cc, tests (x_test.cc) and what serves them (test_x.cc).
# Headers are included as "folio/<room>/<file>.h".

include(GNUInstallDirs)

# A test runs once for each time that it is compiled, so that optimising it costs more than it saves.
set(FOLIO_TEST_OPTIONS "" CACHE STRING "Compiler options of the test programs alone")

function(folio_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wundef -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wcast-align)
  # Only what the code says is fused: results then do not depend on the compiler.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # On Arm, Highway's kernels are built for NEON: they keep vectors in lambdas and arrays, which the
  # types of SVE, whose size is not known, cannot do.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    target_compile_definitions(
      ${target} PRIVATE "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
  endif()
  # GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(FOLIO_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FOLIO_FUZZ)
    target_compile_options(${target} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
  if(FOLIO_SANITIZE OR FOLIO_FUZZ)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-omit-frame-pointer
                                            -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# Rooms that go through large arrays: tests under the sanitizers would wait for them.
set(folio_hot_rooms base tensor io backend text data infer)

# Sets `out` to the room's sources, or with `tests` to those of its tests.
function(folio_sources out tests)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  if(tests)
    list(FILTER files INCLUDE REGEX "_test\\.cc$|(^|/)test_[a-z0-9_]*\\.cc$")
  else()
    list(FILTER files EXCLUDE REGEX "_test\\.cc$|(^|/)test_[a-z0-9_]*\\.cc$|^main\\.cc$")
  endif()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

function(folio_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_SOURCES)
    folio_sources(ARG_SOURCES FALSE)
  endif()
  set(target folio_${room})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(folio::${room} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  folio_compile_options(${target})
  if(FOLIO_SANITIZE AND room IN_LIST folio_hot_rooms)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PUBLIC folio::${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
endfunction()

# Tests of one room, in one program: folio_tests(base DEPS rooms LIBS libs).
function(folio_tests room)
  if(NOT FOLIO_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_SOURCES)
    folio_sources(ARG_SOURCES TRUE)
  endif()
  set(target folio_${room}_test)
  add_executable(${target} ${ARG_SOURCES})
  folio_compile_options(${target})
  target_compile_options(${target} PRIVATE ${FOLIO_TEST_OPTIONS})
  target_link_libraries(${target} PRIVATE folio::${room} folio_test_kit GTest::gtest_main fmt::fmt
                                          ${ARG_LIBS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PRIVATE folio::${dep})
  endforeach()
  include(GoogleTest)
  gtest_discover_tests(${target} TEST_PREFIX "${room}/" NO_PRETTY_TYPES NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
endfunction()
