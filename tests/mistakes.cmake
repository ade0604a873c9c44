# For tests of checks: runs SCRIPT.cmake with the arguments; `expected` is a piece of its message, or
# "" for silence, and `what` names the case.
function(expect_mistake script what expected)
  execute_process(COMMAND ${CMAKE_COMMAND} ${ARGN}
                          -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${script}.cmake
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(expected STREQUAL "")
    if(NOT status EQUAL 0)
      message(SEND_ERROR "a sound ${what} was refused: ${output}")
    endif()
  elseif(status EQUAL 0 OR NOT output MATCHES "${expected}")
    message(SEND_ERROR "${what} was not refused for '${expected}': ${output}")
  endif()
endfunction()
