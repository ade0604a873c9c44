# The page of `folio serve`, in the program: folio_embed_page(TARGET DIRECTORY) adds to the target the
# table of page_files.h, with every FILE.gz of the directory as /FILE. The files are compressed as they
# are sent, and the assembler takes them as they are, so that building needs neither Node nor network.
# Without FOLIO_WEB there are none.

set(folio_page_type_html "text/html; charset=utf-8")
set(folio_page_type_js "text/javascript; charset=utf-8")
set(folio_page_type_css "text/css; charset=utf-8")
set(folio_page_type_svg "image/svg+xml")
set(folio_page_type_json "application/json")

function(folio_embed_page target directory)
  set(files "")
  if(FOLIO_WEB)
    file(GLOB files CONFIGURE_DEPENDS ${directory}/*.gz)
  endif()
  # A changed file changes its tag.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(assembly "")
  set(symbols "")
  set(rows "")
  set(index 0)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    string(REGEX REPLACE "\\.gz$" "" name ${name})
    string(REGEX REPLACE "^.*\\." "" kind ${name})
    if(NOT DEFINED folio_page_type_${kind})
      message(FATAL_ERROR "${file}: no type is known for .${kind}; see cmake/FolioWeb.cmake")
    endif()
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 32 tag)
    set(symbol folio_page_${index})
    string(APPEND assembly "    \"${symbol}: .incbin \\\"${file}\\\"\\n\"\n    \"${symbol}_end: .byte 0\\n\"\n")
    string(APPEND symbols "HIDDEN extern const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"/${name}\", \"${folio_page_type_${kind}}\", \"${tag}\", {${symbol}, ${symbol}_end}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  if(rows)
    string(CONCAT code
      "__asm__(\n    \".pushsection .rodata\\n\"\n${assembly}    \".popsection\\n\");\n\n"
      "#define HIDDEN __attribute__((visibility(\"hidden\")))\nextern \"C\" {\n${symbols}}\n\n")
    set(body "  static const PageFile files[] = {\n${rows}  };\n  return files;\n")
  else()
    set(code "")
    set(body "  return {};\n")
  endif()
  set(table ${CMAKE_CURRENT_BINARY_DIR}/page_table.cc)
  file(CONFIGURE OUTPUT ${table} @ONLY CONTENT
       "// Made by cmake/FolioWeb.cmake.\n#include \"folio/serve/page_files.h\"\n\n${code}namespace folio {\n\nstd::span<const PageFile> PageFiles() {\n${body}}\n\n}  // namespace folio\n")
  set_source_files_properties(${table} PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE ${table})
endfunction()
