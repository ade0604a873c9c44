# Checks that PROGRAM, as it was built, has what cmake/FolioHardening.cmake asks for: each of WANTED.
#   cmake -DPROGRAM=FILE -DREADELF=FILE -DOBJDUMP=FILE "-DWANTED=pie;relro;..." -P hardening.cmake

cmake_minimum_required(VERSION 3.25)

function(read_program out)
  execute_process(COMMAND ${READELF} --wide ${ARGN} ${PROGRAM} OUTPUT_VARIABLE text ERROR_VARIABLE error
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${READELF} ${ARGN} ${PROGRAM}: ${error}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
read_program(header --file-header)
read_program(segments --segments)
read_program(dynamic --dynamic)
read_program(symbols --dyn-syms)

# Sets `out` to whether an instruction of the program matches `pattern`, of x86 or Arm. (The mark that
# all of it is so is not there where the system's start-up code lacks it.)
function(find_instruction out pattern)
  execute_process(COMMAND ${OBJDUMP} --disassemble --no-show-raw-insn ${PROGRAM}
                  COMMAND grep -E -c "${pattern}" OUTPUT_VARIABLE count RESULTS_VARIABLE statuses)
  set(${out} "instructions: ${count}" PARENT_SCOPE)
endfunction()
find_instruction(branches "endbr(64|32)|bti|paciasp")
find_instruction(probes "or[ql] +\\$0x0,(0x[0-9a-f]+)?\\(%[re]sp|str +xzr, \\[sp")

# Counts a mistake where `kind` is wanted and `pattern` is not in the text of that name.
set(mistakes 0)
set(known "")
macro(shows kind text pattern)
  list(APPEND known ${kind})
  if(${kind} IN_LIST WANTED AND NOT ${text} MATCHES "${pattern}")
    message("${PROGRAM} is built without: ${kind}")
    math(EXPR mistakes "${mistakes} + 1")
  endif()
endmacro()
shows(pie header "Type: +DYN ")
shows(relro segments "GNU_RELRO")
shows(now dynamic "FLAGS_1[^\n]* NOW")
shows(noexecstack segments "GNU_STACK [^\n]* RW +0x")
shows(stack_protector symbols " __stack_chk_fail")
shows(fortify symbols " __(memcpy|memmove|memset|read|snprintf|vsnprintf)_chk")
shows(cf_protection branches ": [1-9][0-9][0-9]")
shows(branch_protection branches ": [1-9][0-9][0-9]")
shows(stack_clash probes ": [1-9]")

foreach(kind ${WANTED})
  if(NOT kind IN_LIST known)
    message(FATAL_ERROR "nothing is known of ${kind}")
  endif()
endforeach()
if(mistakes GREATER 0)
  message(FATAL_ERROR "${mistakes} kinds of hardening are missing; see cmake/FolioHardening.cmake")
endif()
