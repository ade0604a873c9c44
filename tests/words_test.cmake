# Gives words.cmake files with one mistake each, and without one; fails unless it tells them apart.
#   cmake -DSCRATCH=DIR -P words_test.cmake

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/mistakes.cmake)

# Checks a file with this text; `expected` is a piece of the message, or "" for silence.
function(check text expected)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/root/docs/serve.md "")
  file(WRITE ${SCRATCH}/root/src/folio/base/a.cc "${text}")
  expect_mistake(words "${text}" "${expected}" -DROOT=${SCRATCH}/root -DSCRATCH=${SCRATCH})
endfunction()

foreach(word What Whether Who Those Of Nor)
  check("int x;\n  // ${word} it is.\n" "a.cc:2: a comment begins with ${word}")
  check("int x;  // ${word}, it is\n" "begins with ${word}")
  check("/* ${word} it is. */\n" "begins with ${word}")
endforeach()
check("// Whose, Office, Normal.\n" "")
check("// The window of\n// What it is\n" "")
check("int x;  // a long one that goes\n        // Of two lines\n" "")
check("int x;  // one\n// Of another.\n" "begins with Of")
check("/* The window of\n * Of it */\nint y;\n// Of it\n" "a.cc:4: a comment begins with Of")
check("const char* x = \"// What\", y = '\"';  // a quote\n" "")
check("auto x = R\"(\n// What\n)\";\n// Of it\n" "a.cc:4: a comment begins with Of")
check("long x = 1'000'000;  // Of it\n" "begins with Of")

check("int of = 1;\n" "a.cc:1: 'of' is no name")
check("f(x, [](int of) { return of + 1; });\n" "'of' is no name")
check("x->of->y();\n" "'of' is no name")
check("int any_of = offset(\"a of b\");  // of it\n#error of it\n" "")
check("auto x = R\"(a of b)\";\n" "")

check("// See base/b.h.\n" "a.cc:1: no file base/b.h")
check("// See base/a.cc, a.cc, folio/base/a.cc and docs/serve.md.\n" "")
check("// See ase/a.cc.\n" "no file ase/a.cc")
check("// https://example.org/b.h, call.config.head(), <sys/stat.h>, sample.py, NAME.model.\n" "")
check("#include \"folio/base/b.h\"\n" "")
