# The tests that `make test-tsan` runs under ThreadSanitizer, by test program: those in which threads
# share something, and of the commands those that train and write. The others have one thread.

set(folio_thread_tests_of_base Parallel* Log* Machine.*)
set(folio_thread_tests_of_io FetchTest* LargeFetch* MappedFaults* AtomicTest*)
set(folio_thread_tests_of_backend CpuBackend* Bf16KernelThreads* MatMul* StoredWeights*)
set(folio_thread_tests_of_text BpeTokenizer.* EncodeParallelTest* PretokenCounter* StreamingEncoder*)
set(folio_thread_tests_of_dist *)
set(folio_thread_tests_of_data Samplers* Datasets* Shards* Conversations*)
set(folio_thread_tests_of_model Checkpoints* DecodingTogether* Decoding/* Adapter* InitWeights*)
set(folio_thread_tests_of_term *)
set(folio_thread_tests_of_corpus *)
set(folio_thread_tests_of_train Accumulation* EarlyStop.P* EarlyStop.To* TrainStep* Resuming* TensorBoard* Training.Checkpoints*
                                Training.Conversations* Training.Stops* TrainStates*)
set(folio_thread_tests_of_formats Convert*)
set(folio_thread_tests_of_infer *)
set(folio_thread_tests_of_eval Perplexities.Go* Perplexities.Documents* Cloze* Comparisons*)
set(folio_thread_tests_of_run *)
set(folio_thread_tests_of_serve *)
set(folio_thread_tests_of_memory MemoryOfRequests.Many* MemoryOfTokenizers.Keep*)
set(folio_thread_tests_of_commands Generate* Serve* Train* FirstRun* Resum* CrashTest* RunDirectory* Prepare*
                                   FineTuningProgram* TensorBoardFlag* Eval.* ProgramTest*)

# The first race ends the process. Libraries that were built without the sanitizer are not looked at, since their
# atomic numbers are not seen. Tests of the sandbox begin threads in a fork.
set(folio_thread_sanitizer_options
    "halt_on_error=1:die_after_fork=0:ignore_noninstrumented_modules=1")
