# What makes a mistake in folio's code harder to use against those who run it: for the rooms and the
# program, each option where compiler, linker and processor know it, and here alone. Private to what
# is built, so that a program that links the library decides for itself. Sanitizers do without: they
# bring checks of their own. tests/hardening.cmake looks at what was built.

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

set(folio_hardened "")  # what tests/hardening.cmake is to find
set(folio_hardened_options "")
set(folio_hardened_link_options "")

# Adds a compiler option that is known, and what it shows as.
function(folio_hardened_by option name)
  string(MAKE_C_IDENTIFIER "FOLIO_USES${option}" known)
  set(CMAKE_REQUIRED_FLAGS -Werror)  # clang takes what is of another processor, and warns
  check_cxx_compiler_flag(${option} ${known})
  if(${known})
    set(folio_hardened_options ${folio_hardened_options} ${option} PARENT_SCOPE)
    set(folio_hardened ${folio_hardened} ${name} PARENT_SCOPE)
  endif()
endfunction()

if(NOT FOLIO_SANITIZE AND NOT FOLIO_THREAD_SANITIZE)
  folio_hardened_by(-fstack-protector-strong stack_protector)
  folio_hardened_by(-fstack-clash-protection stack_clash)
  folio_hardened_by(-fcf-protection=full cf_protection)            # x86
  folio_hardened_by(-mbranch-protection=standard branch_protection)  # Arm
  foreach(option relro now noexecstack)
    check_linker_flag(CXX -Wl,-z,${option} FOLIO_LINKS_${option})
    if(FOLIO_LINKS_${option})
      list(APPEND folio_hardened_link_options -Wl,-z,${option})
      list(APPEND folio_hardened ${option})
    endif()
  endforeach()

  # CMAKE_POSITION_INDEPENDENT_CODE compiles for it; this has CMake link so, too.
  check_pie_supported(LANGUAGES CXX)
  if(CMAKE_CXX_LINK_PIE_SUPPORTED)
    list(APPEND folio_hardened pie)
  endif()

  # Level 3 knows sizes that are computed, where compiler and C library do. A level that somebody set
  # on the command line or in the compiler is replaced, without a warning. Only what is optimised
  # can be fortified.
  set(CMAKE_REQUIRED_FLAGS "-O1 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("#include <cstring>\nint main() {}" FOLIO_FORTIFIES_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(level 2)
  if(FOLIO_FORTIFIES_3)
    set(level 3)
  endif()
  list(APPEND folio_hardened_options
       "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>")
  list(APPEND folio_hardened fortify)
endif()

function(folio_harden target)
  target_compile_options(${target} PRIVATE ${folio_hardened_options})
endfunction()

function(folio_harden_program target)
  target_link_options(${target} PRIVATE ${folio_hardened_link_options})
endfunction()
