# Reads every #include below SOURCE/folio and fails on what docs/architecture.md does not allow:
# a room that uses a room it may not know, an outside library outside its place, a file too long, two
# headers that give one name to two types (the linker would mix them up without a word).
#   cmake -DSOURCE=DIR -P layering.cmake

cmake_minimum_required(VERSION 3.25)

set(uses_base "")
set(uses_tensor base)
set(uses_io base tensor)
set(uses_backend base tensor)
set(uses_text base tensor io)
set(uses_plot base)
set(uses_data base tensor io)
set(uses_model base tensor io backend)
set(uses_term base io text)
set(uses_corpus base io text data term)
set(uses_train base tensor io backend text data model)
set(uses_formats base tensor io backend model text)
set(uses_infer base tensor io backend model text formats)
set(uses_eval base tensor io backend text data model formats term corpus infer)
set(uses_inspect base tensor io backend text data model formats term corpus infer eval plot)
set(uses_lesson base tensor io backend text data model formats term corpus infer eval plot inspect)
set(uses_bench base tensor io backend text data model term train)
set(uses_run base tensor io backend text data model formats train infer eval inspect plot term corpus bench)
set(uses_cli base io text term)
set(uses_commands base tensor io backend text plot data model formats term corpus train infer eval inspect lesson
                  bench run cli)

# An outside header, and the only files that may include it.
set(outside hwy dnnl omp json toml cli curl openssl png zlib archive)
set(hwy_header "^hwy/")
set(hwy_place "^backend/cpu/|^text/|^base/simd_targets\\.cc$")
set(dnnl_header "dnnl")
set(dnnl_place "^backend/cpu/")
set(omp_header "^omp\\.h$")
set(omp_place "^base/thread_pool\\.cc$")
set(json_header "^nlohmann/")
set(json_place "_test\\.cc$|^io/json\\.cc$")  # tests: as a second opinion
set(toml_header "^toml\\+\\+/")
set(toml_place "\\.cc$")
set(cli_header "^CLI/")
set(cli_place "\\.cc$")
set(curl_header "^curl/")
set(curl_place "^io/fetch\\.cc$")
set(openssl_header "^openssl/")
set(openssl_place "^io/sha256\\.cc$")
set(png_header "^png\\.h$")
set(png_place "^plot/png(_test)?\\.cc$")
set(zlib_header "^zlib\\.h$")
set(zlib_place "^io/gunzip\\.cc$")
set(archive_header "^archive(_entry)?\\.h$")
set(archive_place "^io/decompress\\.cc$")

set(max_lines_cc 500)  # so that a file is one thought, about 400 as a rule
set(max_lines_h 200)
# Longer files, each with its reason.
set(longer
    "lesson/test_attention.h"  # a form of attention, its run, and what is checked of every one
    "backend/ops.h")  # the whole hardware contract on one page

set(mistakes 0)
function(mistake text)
  message("${text}")
  math(EXPR count "${mistakes} + 1")
  set(mistakes ${count} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${SOURCE}/folio ${SOURCE}/folio/*.h ${SOURCE}/folio/*.cc)
if(NOT files)
  message(FATAL_ERROR "no sources below ${SOURCE}/folio")
endif()
foreach(file ${files})
  string(REGEX REPLACE "/.*" "" room ${file})
  if(NOT DEFINED uses_${room})
    mistake("${file}: '${room}' is not a room")
  endif()

  file(STRINGS ${SOURCE}/folio/${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line ${includes})
    string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*)[>\"].*" "\\1" header "${line}")
    if(header MATCHES "^folio/([a-z]+)/")
      set(other ${CMAKE_MATCH_1})
      if(NOT other STREQUAL room AND NOT other IN_LIST uses_${room})
        mistake("${file}: ${room} may not know ${other} (${header})")
      endif()
    elseif(header MATCHES "^\\.\\.?/")
      mistake("${file}: include from the root, not ${header}")
    endif()
    foreach(library ${outside})
      if(header MATCHES "${${library}_header}" AND NOT file MATCHES "${${library}_place}")
        mistake("${file}: ${header} does not belong here")
      endif()
    endforeach()
  endforeach()

  # Of namespace folio: the backends' kernels have namespaces of their own.
  if(file MATCHES "\\.h$" AND NOT file MATCHES "^backend/(cpu|reference)/")
    file(STRINGS ${SOURCE}/folio/${file} types REGEX "^(struct|class|enum class) [A-Za-z0-9_]+( final)?( [:{]|$)")
    foreach(line ${types})
      if(NOT line MATCHES "^(struct|class|enum class) ")
        continue()  # what stood behind a semicolon
      endif()
      string(REGEX REPLACE "^(struct|class|enum class) ([A-Za-z0-9_]+).*" "\\2" type "${line}")
      if(DEFINED header_of_${type} AND NOT header_of_${type} STREQUAL file)
        mistake("${file}: ${type} is another type in ${header_of_${type}}")
      endif()
      set(header_of_${type} ${file})
    endforeach()
  endif()

  file(READ ${SOURCE}/folio/${file} text)
  string(REGEX MATCHALL "\n" lines "${text}")
  list(LENGTH lines length)
  string(REGEX REPLACE ".*\\." "" kind ${file})
  if(length GREATER max_lines_${kind} AND NOT file IN_LIST longer)
    mistake("${file}: ${length} lines, at most ${max_lines_${kind}}")
  endif()
endforeach()

if(mistakes GREATER 0)
  message(FATAL_ERROR "${mistakes} mistakes of layering")
endif()
