# Installs the build into a fresh prefix and builds and runs a program that finds it there.
#   cmake -DBUILD=DIR -DSCRATCH=DIR -DCONSUMER=DIR -DCXX=COMPILER -P install_test.cmake

cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
file(READ ${CONSUMER}/../../docs/library.md text)
file(READ ${CONSUMER}/consumer.cc program)
string(FIND "${text}" "${program}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "the program in docs/library.md is not ${CONSUMER}/consumer.cc")
endif()
file(WRITE ${SCRATCH}/text.txt "${text}")
run(${SCRATCH}/build/consumer ${SCRATCH}/text.txt ${SCRATCH}/run)
run(${SCRATCH}/build/mistaken ${SCRATCH}/run)
foreach(part best/model.safetensors last/tokenizer.json metrics.jsonl loss.svg)
  if(NOT EXISTS ${SCRATCH}/run/${part})
    message(FATAL_ERROR "the consumer left no ${part}")
  endif()
endforeach()
# A program of ranks leaves what it leaves alone.
run(${SCRATCH}/build/ranks ${SCRATCH}/text.txt ${SCRATCH}/alone)
find_program(MPIRUN mpirun.openmpi)
file(GLOB plugin ${SCRATCH}/prefix/lib*/folio/folio_mpi_openmpi.so ${SCRATCH}/prefix/lib*/*/folio/folio_mpi_openmpi.so)
if(MPIRUN AND plugin)
  run(${MPIRUN} --allow-run-as-root --oversubscribe --bind-to none -n 2 -x FOLIO_MPI=${plugin}
      ${SCRATCH}/build/ranks ${SCRATCH}/text.txt ${SCRATCH}/shared)
  run(${CMAKE_COMMAND} -E compare_files ${SCRATCH}/alone/last/model.safetensors
      ${SCRATCH}/shared/last/model.safetensors)
else()
  message(STATUS "no Open MPI here: its ranks were left out")
endif()
if(EXISTS ${BUILD}/folio)
  file(STRINGS ${SCRATCH}/prefix/lib/systemd/system/folio.service started REGEX "^ExecStart=${SCRATCH}/prefix/bin/folio serve ")
  if(NOT started)
    message(FATAL_ERROR "the unit of systemd does not start the program that was installed")
  endif()
  run(${SCRATCH}/prefix/bin/folio --version)
endif()
