# One library target per room: folio_room(base DEPS rooms... LIBS outside libraries...). It has all
# sources below the room's directory but main.cc, plug-ins (x_plugin.cc), tests (x_test.cc) and what serves
# them (test_x.cc).
# Headers are included as "folio/<room>/<file>.h".

include(GNUInstallDirs)
include(FolioThreadTests)

# A test runs once for each time that it is compiled, so that optimising it costs more than it saves.
set(FOLIO_TEST_OPTIONS "" CACHE STRING "Compiler options of the test programs alone")

# Under a sanitizer of whatever kind.
set(folio_sanitized OFF)
if(FOLIO_SANITIZE OR FOLIO_THREAD_SANITIZE)
  set(folio_sanitized ON)
endif()

function(folio_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wundef -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wcast-align)
  # Only what the code says is fused: results then do not depend on the compiler.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  # What nobody calls is left out by the linker, and names of files do not say where they lay: a program is the same
  # wherever it was built. Sanitizers show whole paths, and find more where everything stays.
  if(NOT folio_sanitized)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
  # No processor that has SSSE3 alone is still in use.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_compile_definitions(${target} PRIVATE HWY_DISABLED_TARGETS=HWY_SSSE3)
  endif()
  # On Arm, Highway's kernels are built for NEON: they keep vectors in lambdas and arrays, which the
  # types of SVE, whose size is not known, cannot do.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    target_compile_definitions(
      ${target} PRIVATE "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
  endif()
  # GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651), and with a
  # precompiled header places outside of strings, as it forgets which code is a system header's.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                             -Wno-stringop-overread)
  endif()
  if(FOLIO_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FOLIO_SANITIZE)
    # Pointer arithmetic that overflows is seen by AddressSanitizer as soon as the pointer is used;
    # looking at each addition took half the time of compiling the kernels.
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-sanitize=pointer-overflow
                                            -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
    # Highway then leaves out older instructions, whose vectors are no longer than SSE4's.
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
      target_compile_options(${target} PRIVATE -msse4.2 -maes -mpclmul)
    endif()
  endif()
  if(FOLIO_THREAD_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=thread)
    # Threads meet in the same places whatever the instruction set, and one compiles sooner than ten.
    target_compile_definitions(${target} PRIVATE HWY_COMPILE_ONLY_STATIC)
  endif()
  if(folio_sanitized)
    target_compile_definitions(${target} PRIVATE FOLIO_SANITIZE)
  endif()
endfunction()

# Rooms whose branches libFuzzer counts: those of the fuzz targets.
set(folio_fuzzed_rooms base io text data model model_files formats corpus train eval serve)

# Rooms that are optimised a little under the sanitizers, since they go through large arrays.
set(folio_hot_rooms base io text data tensor backend model model_files corpus infer inspect)

# What nearly every source includes, compiled once for all rooms. Clang wants an own one for each set of
# options.
set(folio_headers <fmt/format.h> <algorithm> <cmath> <filesystem> <functional> <limits> <map> <memory>
                  <optional> <span> <string> <string_view> <utility> <variant> <vector>)
function(folio_precompile target position_independent)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cc CONTENT "")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/headers.cc)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ${position_independent})
  folio_compile_options(${target})
  target_link_libraries(${target} PRIVATE fmt::fmt)
  target_precompile_headers(${target} PRIVATE ${folio_headers} ${ARGN})
  # Clang's knows in which directory it was made: one from ccache might be of another checkout.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "")
  endif()
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes headers only where the same macros are defined, and -Os defines one; from version 13 on only at the same level.
  folio_precompile(folio_room_headers ON)
  folio_harden(folio_room_headers)
  target_compile_options(folio_room_headers PRIVATE $<$<CONFIG:Release>:-Os>)
endif()

# Sets `out` to what a target is compiled from: with FOLIO_UNITS units that include eight sources each. By itself is compiled
# what has options of its own, what Highway compiles once for each instruction set by including it again, and what calls an
# outside library, also through the downloads of io/hub, with which a program then is not linked that calls no such source. A
# unit names its sources from an include directory, so that it is the same in every checkout (CMake's unity builds name them by
# their whole path), and ccache finds what another one compiled.
set(FOLIO_UNITS OFF CACHE BOOL "Compile sources in batches")
set(CMAKE_UNITY_BUILD OFF)  # whatever a build directory of before, or its user, says: units of units do not compile
function(folio_units out target sources)
  if(NOT FOLIO_UNITS)
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  set(root ${PROJECT_SOURCE_DIR})
  cmake_path(APPEND root src OUTPUT_VARIABLE src)
  cmake_path(IS_PREFIX src ${CMAKE_CURRENT_SOURCE_DIR} in_src)
  if(in_src)
    set(root ${src})
  endif()
  set(units "")
  set(in_unit 0)
  set(number 0)
  foreach(source ${sources})
    file(STRINGS ${source} lines REGEX "hwy/foreach_target.h|#include <(nettle|curl|toml|archive|png)|folio/io/hub.h" LIMIT_COUNT 1)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(lines OR options OR definitions)
      list(APPEND units ${source})
      continue()
    endif()
    if(in_unit EQUAL 0)
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/units/${target}_${number}.cc)
      list(APPEND units ${unit})
      set(text_${number} "")
      set(unit_${number} ${unit})
    endif()
    file(RELATIVE_PATH name ${root} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    string(APPEND text_${number} "#include \"${name}\"\n")
    math(EXPR in_unit "(${in_unit} + 1) % 8")
    if(in_unit EQUAL 0)
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  foreach(n RANGE ${number})
    if(DEFINED unit_${n})
      file(CONFIGURE OUTPUT ${unit_${n}} CONTENT "${text_${n}}" @ONLY)
    endif()
  endforeach()
  set(${out} ${units} PARENT_SCOPE)
endfunction()

# Sets `out` to the room's sources, or with `tests` to those of its tests.
function(folio_sources out tests)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  if(tests)
    list(FILTER files INCLUDE REGEX "_test\\.cc$|(^|/)test_[a-z0-9_]*\\.cc$")
  else()
    list(FILTER files EXCLUDE REGEX "_test\\.cc$|(^|/)test_[a-z0-9_]*\\.cc$|^main\\.cc$|_plugin\\.cc$")
  endif()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# A room of the house. Its sources are compiled for size, but for kernels, which mostly wait for memory, and its LOOPS,
# which a program waits for or that are between such loops: less unrolled than its PRODUCTS, which compute.
function(folio_room room)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;LOOPS;PRODUCTS" ${ARGN})
  set(target folio_${room})
  folio_sources(sources FALSE)
  list(REMOVE_ITEM sources ${ARG_LOOPS} ${ARG_PRODUCTS})
  set(kernels "")
  foreach(source ${sources})
    file(STRINGS ${source} lines REGEX "hwy/foreach_target.h" LIMIT_COUNT 1)
    if(lines)
      list(APPEND kernels ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${kernels})
  folio_units(units ${target} "${sources}")
  folio_units(loops ${target}_loops "${ARG_LOOPS}")
  set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
  set_source_files_properties(${loops} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2;$<$<CXX_COMPILER_ID:GNU>:-fpeel-loops>>")
  set_source_files_properties(${ARG_PRODUCTS} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  list(APPEND loops ${kernels} ${ARG_PRODUCTS})
  set_source_files_properties(${loops} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  add_library(${target} STATIC ${units} ${loops})
  add_library(folio::${room} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  folio_compile_options(${target})
  folio_harden(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  if(TARGET folio_room_headers)
    target_precompile_headers(${target} REUSE_FROM folio_room_headers)
  endif()
  if(folio_sanitized AND room IN_LIST folio_hot_rooms)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(FOLIO_SANITIZE AND room IN_LIST folio_fuzzed_rooms)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} PUBLIC folio::${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  # Who links a room takes of it and of its libraries what it calls.
  target_link_options(${target} INTERFACE $<INSTALL_INTERFACE:LINKER:--gc-sections,--as-needed>)
endfunction()

# The same for all test programs, whose code depends on its position as that of a program does.
if(FOLIO_TESTS)
  folio_precompile(folio_test_headers OFF <gtest/gtest.h> <fstream> <set>)
  target_compile_options(folio_test_headers PRIVATE ${FOLIO_TEST_OPTIONS})
  target_link_libraries(folio_test_headers PRIVATE GTest::gtest)
endif()

# A test program: folio_test_program(NAME TARGET SOURCES ... LIBS ...). ctest runs it as four processes, each
# with its share of the tests, so that no program keeps one core busy alone at the end, the longest first; each leaves its
# results in tests.xml/, where scripts/test.sh counts them. Room io writes to a disk whatever directory the others are given.
function(folio_test_program name target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  folio_units(units ${target} "${ARG_SOURCES}")
  add_executable(${target} ${units})
  folio_compile_options(${target})
  target_compile_options(${target} PRIVATE ${FOLIO_TEST_OPTIONS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} GTest::gtest_main fmt::fmt)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${target} REUSE_FROM folio_test_headers)
  set(environment "")
  if(FOLIO_THREAD_SANITIZE)
    if(NOT DEFINED folio_thread_tests_of_${name})
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
      return()
    endif()
    list(JOIN folio_thread_tests_of_${name} ":" filter)
    set(environment "GTEST_FILTER=${filter}" "TSAN_OPTIONS=${folio_thread_sanitizer_options}")
  elseif(FOLIO_SANITIZE)
    set(environment "ASAN_OPTIONS=allocator_may_return_null=1")  # what operator new(std::nothrow) promises
  endif()
  set(cost 1)
  if(name MATCHES "^(commands|files|flags|memory)$")
    set(cost 20)
  endif()
  set(directory "")
  if(name STREQUAL "io")
    set(directory "TMPDIR=unset:;TEST_TMPDIR=unset:")
  endif()
  foreach(shard RANGE 3)
    add_test(NAME ${name}/${shard} COMMAND ${target} --gtest_brief=1)
    set_tests_properties(${name}/${shard} PROPERTIES TIMEOUT 1200 COST ${cost} ENVIRONMENT_MODIFICATION "${directory}" ENVIRONMENT
      "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard};GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/tests.xml/${name}.${shard}.xml;${environment}")
  endforeach()
endfunction()

# Tests of one room, in one program: folio_tests(base LIBS libs).
function(folio_tests room)
  if(NOT FOLIO_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  folio_sources(sources TRUE)
  folio_test_program(${room} folio_${room}_test SOURCES ${sources}
                     LIBS folio::${room} folio_test_kit ${ARG_LIBS})
endfunction()
