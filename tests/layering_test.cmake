# Gives layering.cmake small houses with one mistake each, and one without; fails unless it tells
# them apart.
#   cmake -DSCRATCH=DIR -P layering_test.cmake

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/mistakes.cmake)

# Runs the check on a house of one file, or of two with the second's name and text behind; `expected`
# is a piece of its message, or "" for silence.
function(check file text expected)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/folio/${file} "${text}")
  if(ARGC GREATER 3)
    file(WRITE ${SCRATCH}/folio/${ARGV3} "${ARGV4}")
  endif()
  expect_mistake(layering ${file} "${expected}" -DSOURCE=${SCRATCH})
endfunction()

check(model/a.cc "#include <fmt/format.h>\n#include \"folio/backend/ops.h\"\n" "")
check(text/a.cc "#include \"folio/model/gpt.h\"\n" "text may not know model")
check(model/a.cc "#include \"folio/text/bpe.h\"\n" "model may not know text")
check(train/a.cc "#include \"folio/infer/decode_batch.h\"\n" "train may not know infer")
check(infer/a_test.cc "  #  include \"folio/train/trainer.h\"\n" "infer may not know train")
check(base/a.h "#include \"folio/tensor/tensor.h\"\n" "base may not know tensor")
check(plot/a.cc "#include \"folio/io/file.h\"\n" "plot may not know io")
check(attic/a.cc "" "'attic' is not a room")
check(io/a.cc "#include \"../base/error.h\"\n" "include from the root")

check(backend/cpu/a.cc "#include <hwy/highway.h>\n" "")
check(backend/reference/a.cc "#include <hwy/highway.h>\n" "hwy/highway.h does not belong here")
check(text/a_test.cc "#include <nlohmann/json.hpp>\n" "")
check(text/a.cc "#include <nlohmann/json.hpp>\n" "does not belong here")
check(text/a.h "#include <nlohmann/json_fwd.hpp>\n" "does not belong here")
check(commands/a.h "#include <toml++/toml.h>\n" "does not belong here")

check(io/a.h "struct Box {\n" "Box is another type in io/a.h" plot/a.h "struct Box { int x; };\n")
check(io/a.h "class Box : Base {\n" "Box is another type" plot/a.h "class Box final : Base {\n")
check(io/a.h "struct Box\;\n" "" plot/a.h "struct Box {\n")
check(backend/cpu/a.h "struct Box {\n" "" plot/a.h "struct Box {\n")

check(data/a.cc "FileDescriptor fd = OpenForReading(path)\;\nfd_ = open(p, O_WRONLY | O_CLOEXEC)\;\n" "")
check(data/a.cc "fd_ = open(p,\n  O_RDONLY | O_DIRECTORY | O_CLOEXEC)\;\n" "")
check(data/a.cc "fd_ = open(p,\n  O_RDONLY | O_CLOEXEC)\;\n" "not how files are opened for reading")
check(data/a.cc "std::ifstream file(path)\;\n" "'ifstream' is not how files are opened")
check(data/a.cc "FILE* file = fopen(path, \"r\")\;\n" "not how files are opened")
check(data/a_test.cc "std::ifstream file(path)\;\nReadFile(path)\;\n" "")
check(data/a.cc "text = ReadFile(path, kMost)\;\nmore = ReadFile(At(path).string(), kMost)\;\n" "")
check(data/a.cc "text = ReadFile(path)\;\n" "has no limit of size")
check(data/a.cc "Parse(ReadFile(At(path)), path)\;\n" "has no limit of size")

# A circle of four files, and one of three.
function(check_circle files expected)
  file(REMOVE_RECURSE ${SCRATCH})
  math(EXPR last "${files} - 1")
  foreach(file RANGE ${last})
    math(EXPR next "(${file} + 1) % ${files}")
    file(WRITE ${SCRATCH}/folio/io/f${file}.h "")
    file(WRITE ${SCRATCH}/folio/io/f${file}.cc "#include \"folio/io/f${file}.h\"\n#include \"folio/io/f${next}.h\"\n")
    file(WRITE ${SCRATCH}/folio/io/f${file}_test.cc "#include \"folio/io/f0.h\"\n")
  endforeach()
  expect_mistake(layering "a circle of ${files}" "${expected}" -DSOURCE=${SCRATCH})
endfunction()
check_circle(3 "")
check_circle(4 "io: 4 files include each other in a circle, 3 may: io/f0, io/f1, io/f2, io/f3")
