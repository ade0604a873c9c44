/* folio for C, and for every language that calls C: tokenizers, writing with models, looking
 * inside, training and fine-tuning, in one shared library. For C++ see api/model.h and
 * api/batch_trainer.h, over which this lies.
 *
 *   pkg-config --cflags --libs folio
 *
 * Rules that hold for every function:
 *
 * - Errors. A function that can fail returns a folio_status and takes a `folio_error **` last,
 *   which may be NULL. It is set only where the status is not FOLIO_OK; free it with
 *   folio_error_free. Results are written only with FOLIO_OK. Wrong arguments, broken files and a
 *   lack of memory are such errors, and name the argument: NULL where nothing says that it may be,
 *   "" for a path, a path that the system has no room for, counts out of range. Nothing here ends
 *   the process, but a mistake in folio itself (folio_set_fatal).
 *
 * - Ownership. What comes through an `out` parameter or from a function that ends in _new is freed
 *   by the _free of its kind; NULL is freed as nothing. All else is borrowed, as long as its
 *   comment says. Handles hold what they are made of: they may be freed in any order.
 *
 * - Threads. A `const` handle, a batch and a trainer may be used by any number of threads at a
 * time, any other handle by one. Calls that compute with one model, batch or trainer wait for each
 * other; all share the threads of folio_set_threads, on which no result depends. A process that
 * fork made may use the handles of its parent, whatever other threads did with them then; but a
 * batch or a trainer that one of them was using is a FOLIO_USAGE there.
 *
 * - Texts are UTF-8 with a length in bytes, and may hold zeros; names and paths end in a zero. Ids
 *   of tokens are int32_t. Sizes: T tokens, V tokens of the vocabulary, C channels, H heads.
 *
 * - Callbacks run on the thread that called, may call folio_cancel_request and functions of
 *   tokenizers (what would compute with the same model is a FOLIO_USAGE), and must not leave by
 *   longjmp or an exception. One that returns an int goes on with 0.
 *
 * - The library is silent, takes no signals, and reads no environment but FOLIO_HOME,
 *   XDG_CACHE_HOME and HOME, where a published tokenizer is asked for by its name.
 *
 * - Until version 1.0 functions may change with a minor version; then they are only added. A test
 *   compares them with those of the last release (tests/abi_test.cmake). */
#ifndef FOLIO_H
#define FOLIO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FOLIO_API __attribute__((visibility("default")))
#else
#define FOLIO_API
#endif

/* ---- Errors ---------------------------------------------------------------------------------- */

/* 0, or whose mistake it was. Statuses may be added; treat an unknown one as FOLIO_RUNTIME. */
typedef int32_t folio_status;
enum {
  FOLIO_OK = 0,
  FOLIO_RUNTIME = 1,   /* something failed while running: a full disk, no permission */
  FOLIO_USAGE = 2,     /* an argument or an option */
  FOLIO_INPUT = 3,     /* a file or a model is missing or damaged */
  FOLIO_RESOURCE = 4,  /* out of memory, or no such device */
  FOLIO_DIVERGED = 5,  /* losses or logits that are not finite */
  FOLIO_CANCELLED = 6, /* a folio_cancel or a callback asked for it */
  FOLIO_INTERNAL = 7   /* a mistake in folio: please report it */
};
typedef struct folio_error folio_error;

/* "usage" of FOLIO_USAGE; "unknown" of what is no status. */
FOLIO_API const char* folio_status_name(folio_status status);
/* Where and what; what was expected and found; what to do. Each may be "", none is NULL. They live
 * as long as the error. */
FOLIO_API const char* folio_error_message(const folio_error* error);
FOLIO_API const char* folio_error_cause(const folio_error* error);
FOLIO_API const char* folio_error_help(const folio_error* error);
FOLIO_API void folio_error_free(folio_error* error);

/* ---- The library ----------------------------------------------------------------------------- */

/* major << 16 | minor << 8 | patch, of the library that runs. */
FOLIO_API uint32_t folio_version(void);

enum { FOLIO_LOG_DEBUG = 0, FOLIO_LOG_INFO = 1, FOLIO_LOG_WARNING = 2, FOLIO_LOG_ERROR = 3 };
/* Messages from `level` on go to `log`, one at a time, from any thread; NULL for nowhere, as at
 * first. */
FOLIO_API void folio_set_log(int32_t level,
                             void (*log)(void* user, int32_t level, const char* text,
                                         size_t length),
                             void* user);
/* Called before the process aborts, which only a mistake in folio makes it do: `text` says where.
 */
FOLIO_API void folio_set_fatal(void (*fatal)(void* user, const char* text), void* user);
/* The threads of all computing, 1 to 4096; at first as many as there are processor cores. Calls
 * that are being made keep the number that they began with. */
FOLIO_API folio_status folio_set_threads(int32_t threads, folio_error** error);

/* ---- Buffers, options, cancelling ------------------------------------------------------------ */

/* A result whose size only folio knows. Each call that fills it replaces what it held; one that is
 * used again does not allocate again. */
typedef struct folio_buffer folio_buffer;
FOLIO_API folio_buffer* folio_buffer_new(void); /* NULL where there is no memory, as all of _new */
/* Aligned for every type of number; a zero that does not count stands behind the last byte. Valid
 * until the buffer is filled again or freed. */
FOLIO_API const void* folio_buffer_data(const folio_buffer* buffer);
FOLIO_API size_t folio_buffer_size(const folio_buffer* buffer); /* bytes */
FOLIO_API void folio_buffer_free(folio_buffer* buffer);

/* Options by name. Wherever options are taken, NULL stands for the usual ones. */
typedef struct folio_options folio_options;
/* `of` is "open", "generate", "train", "prepare" or "tokenizer"; NULL for any other. */
FOLIO_API folio_options* folio_options_new(const char* of);
/* Sets one, from text: ("temperature", "0.8"). A name that does not exist and a value out of its
 * range are a FOLIO_USAGE. "stop" of "generate" adds a text that ends the text, "special_token" of
 * "tokenizer" a token. */
FOLIO_API folio_status folio_options_set(folio_options* options, const char* name,
                                         const char* value, folio_error** error);
/* All options of a kind as JSON: [{"name", "type", "value", "help"}, ...], value the usual one. The
 * type is "integer", "number", "true|false", "text", the values that there are ("a|b"), each of
 * them with "|null" where it may be none, or "texts" of what may be set several times. */
FOLIO_API folio_status folio_options_describe(const char* of, folio_buffer* json,
                                              folio_error** error);
FOLIO_API void folio_options_free(folio_options* options);

/* A request to stop, which any thread and any signal handler may make. What is stopped returns
 * FOLIO_CANCELLED and leaves nothing half-done, but that texts and runs say how they ended;
 * wherever one is taken it may be NULL. */
typedef struct folio_cancel folio_cancel;
FOLIO_API folio_cancel* folio_cancel_new(void);
FOLIO_API void folio_cancel_request(folio_cancel* cancel);
FOLIO_API void folio_cancel_reset(folio_cancel* cancel);
FOLIO_API void folio_cancel_free(folio_cancel* cancel);

/* What is told of long work; any of the callbacks may be NULL. A callback that returns other than 0
 * stops, as `cancel` does. */
typedef struct folio_watch {
  size_t size; /* sizeof(folio_watch), for versions that have more members */
  void* user;
  const folio_cancel* cancel;
  /* So much of all is done: of text in bytes, of a model in parameters, of a prompt in tokens where
   * it takes several passes, of a tokenizer first in bytes of text and then in merges. */
  int (*progress)(void* user, int64_t done, int64_t total);
  /* A step is done, counted from 0; the loss is in nats per token. */
  int (*step)(void* user, int64_t step, double loss, double learning_rate,
              double tokens_per_second);
  /* Losses before a step, on training data and on held-out data. */
  int (*evaluation)(void* user, int64_t step, double train_loss, double held_out_loss);
  /* Asked by folio_train_run on the thread that called, between the operations of a step and the
   * batches of an evaluation: for hosts whose interrupts are seen only by that thread. */
  int (*poll)(void* user);
} folio_watch;

/* Numbers that lie in memory, in row-major order. */
typedef struct folio_tensor {
  size_t size; /* sizeof(folio_tensor), which the caller sets */
  const void* data;
  const char* dtype; /* "F32", "BF16", "F16", or a block type of ggml, "Q8_0" */
  uint64_t bytes;
  int32_t rank;
  int64_t shape[8]; /* `rank` of them */
} folio_tensor;

/* ---- Files in memory ------------------------------------------------------------------------- */

/* A directory of files that are in memory alone. Its path, and that of a file in it, are taken
 * wherever a model or a tokenizer is opened. What was opened keeps what it needs when this is
 * freed. */
typedef struct folio_files folio_files;
FOLIO_API folio_files* folio_files_new(void);
/* Adds a file, whose bytes are copied. */
FOLIO_API folio_status folio_files_add(folio_files* files, const char* name, const void* bytes,
                                       size_t size, folio_error** error);
/* The same of a file that `read` gives, piece by piece: it fills `bytes` with `count` of them from
 * `offset` on, and returns other than 0 where it cannot (FOLIO_INPUT). */
FOLIO_API folio_status folio_files_read(folio_files* files, const char* name, uint64_t size,
                                        int (*read)(void* user, uint64_t offset, void* bytes,
                                                    size_t count),
                                        void* user, folio_error** error);
/* Lives as long as it; "" for NULL. */
FOLIO_API const char* folio_files_path(const folio_files* files);
FOLIO_API void folio_files_free(folio_files* files);

/* ---- Tokenizers ------------------------------------------------------------------------------ */

typedef struct folio_tokenizer folio_tokenizer;
/* What `spec` names: a published encoding that was fetched ("gpt2", "o200k_base"), "bytes", or a
 * path: a directory or file of a tokenizer, or a training run. */
FOLIO_API folio_status folio_tokenizer_open(const char* spec, folio_tokenizer** out,
                                            folio_error** error);
/* What texts of special tokens ("<|endoftext|>") become. */
enum {
  FOLIO_SPECIAL_ORDINARY = 0, /* text as any other */
  FOLIO_SPECIAL_ALLOW = 1,    /* the tokens */
  FOLIO_SPECIAL_RAISE = 2     /* a FOLIO_INPUT */
};
/* The ids (int32_t) of a text, on all threads where it is long and special texts are ordinary; of
 * such texts alone `watch` hears. */
FOLIO_API folio_status folio_tokenizer_encode(const folio_tokenizer* tokenizer, const char* text,
                                              size_t length, int32_t special,
                                              const folio_watch* watch, folio_buffer* ids,
                                              folio_error** error);
/* The same of many texts, with special texts as ordinary ones: the ids of text i are
 * ids[offsets[i]] to ids[offsets[i + 1] - 1], of `count` + 1 offsets (int64_t). */
FOLIO_API folio_status folio_tokenizer_encode_batch(const folio_tokenizer* tokenizer,
                                                    const char* const* texts, const size_t* lengths,
                                                    size_t count, const folio_watch* watch,
                                                    folio_buffer* ids, folio_buffer* offsets,
                                                    folio_error** error);
/* The bytes of tokens, which need not be UTF-8. */
FOLIO_API folio_status folio_tokenizer_decode(const folio_tokenizer* tokenizer, const int32_t* ids,
                                              size_t count, folio_buffer* bytes,
                                              folio_error** error);
/* The bytes of one token, which live as long as the tokenizer and do not end in a zero. */
FOLIO_API folio_status folio_tokenizer_token(const folio_tokenizer* tokenizer, int32_t id,
                                             const char** bytes, size_t* length,
                                             folio_error** error);
/* {"kind", "vocab_size", "end_of_text", "special_tokens": [{"text", "id"}, ...], "hash"} */
FOLIO_API folio_status folio_tokenizer_info(const folio_tokenizer* tokenizer, folio_buffer* json,
                                            folio_error** error);
/* Writes tokenizer.json and what belongs to it into an existing directory. */
FOLIO_API folio_status folio_tokenizer_save(const folio_tokenizer* tokenizer, const char* directory,
                                            folio_error** error);
FOLIO_API void folio_tokenizer_free(folio_tokenizer* tokenizer);
/* Makes a byte-level BPE of the documents of texts (files or directories), with `options` of
 * "tokenizer", in a directory that appears when it is whole. */
FOLIO_API folio_status folio_tokenizer_train(const char* const* texts, size_t count,
                                             const char* directory, const folio_options* options,
                                             const folio_watch* watch, folio_error** error);

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct folio_model folio_model;
/* What `path` names, in any format that folio reads: a training run, a directory of Hugging Face's,
 * a GGUF file. `options` of "open". The file is mapped: it must stay as it is while the model is
 * open. */
FOLIO_API folio_status folio_model_open(const char* path, const folio_options* options,
                                        const folio_watch* watch, folio_model** out,
                                        folio_error** error);
/* {"config": {...}, "parameters", "dtype", "path", "note", "tensors": [name, ...]} */
FOLIO_API folio_status folio_model_info(const folio_model* model, folio_buffer* json,
                                        folio_error** error);
/* V, C and the longest context, for those who give out room; 0 for NULL. */
FOLIO_API int64_t folio_model_vocab_size(const folio_model* model);
FOLIO_API int64_t folio_model_width(const folio_model* model);
FOLIO_API int64_t folio_model_context(const folio_model* model);
/* The tokenizer that came with it, or NULL. It lives as long as the model. */
FOLIO_API const folio_tokenizer* folio_model_tokenizer(const folio_model* model);
/* The ids that the model is to go on from: the text with the tokens that the tokenizer puts before
 * texts. Never none: of an empty text it is what stands between texts. */
FOLIO_API folio_status folio_model_prompt(const folio_model* model, const char* text, size_t length,
                                          folio_buffer* ids, folio_error** error);
/* The same of a conversation by the model's own template, up to where its answer begins. `roles`
 * are "system", "user", "assistant" and "tool"; both texts of a message end in a zero. What
 * folio_generate writes behind these ids is an answer: set "defaults" of its options to "chat" for
 * tokens that are chosen as `folio chat` chooses them. */
FOLIO_API folio_status folio_model_chat(const folio_model* model, const char* const* roles,
                                        const char* const* texts, size_t count, folio_buffer* ids,
                                        folio_error** error);
/* The same of a conversation in JSON, as OpenAI's API has it: {"messages": [{"role", "content",
 * "tool_calls", "reasoning_content", ...}, ...], "tools": [...], "chat_template_kwargs": {...}}, of
 * which the last two may be missing. What the template makes nothing of is an error. */
FOLIO_API folio_status folio_model_chat_json(const folio_model* model, const char* json,
                                             size_t length, folio_buffer* ids, folio_error** error);
/* A parameter by its name, where it lies: valid as long as the model. */
FOLIO_API folio_status folio_model_tensor(const folio_model* model, const char* name,
                                          folio_tensor* out, folio_error** error);
/* Writes a model that was opened with dtype=fp32, and its tokenizer, as "hf", "gguf" or another
 * format of `folio convert`, with matrices as "fp32", "bf16", "q8_0" or another dtype of that.
 * Nothing may be at `path`. */
FOLIO_API folio_status folio_model_save(const folio_model* model, const char* path,
                                        const char* format, const char* dtype, folio_error** error);
FOLIO_API void folio_model_free(folio_model* model);

/* ---- Writing --------------------------------------------------------------------------------- */

/* The reason why a text ended. */
enum {
  FOLIO_END_LENGTH = 0,  /* max_tokens */
  FOLIO_END_STOP = 1,    /* an end of text or of a turn, a text of "stop", or the callback */
  FOLIO_END_CONTEXT = 2, /* the context is full, with when_full=stop */
  FOLIO_END_CANCELLED = 3
};
/* Writes on from `ids`, with `options` of "generate". Each part of the text goes to `text` as soon
 * as it is known, whole characters only; it returns other than 0 to end the text. `text`, `whole`
 * (all of the text) and `end` may be NULL. The same seed gives the same text.
 *
 * With defaults=chat the options that were not set are those of `folio chat`: what the model's
 * files suggest (generation_config.json, general.sampling.* of a GGUF file), else temperature 0.3,
 * top_k 40, top_p 0.9 and min_p 0.05; and 512 tokens at most. */
FOLIO_API folio_status folio_generate(const folio_model* model, const int32_t* ids, size_t count,
                                      const folio_options* options,
                                      int (*text)(void* user, const char* text, size_t length),
                                      void* user, const folio_watch* watch, folio_buffer* whole,
                                      int32_t* end, folio_error** error);

/* Texts that are written together: they join and leave between steps, each is what it would be
 * alone, and several cost little more than one. */
typedef struct folio_batch folio_batch;
/* A batch of at most so many texts at once; more wait for their turn. */
FOLIO_API folio_status folio_batch_new(const folio_model* model, int32_t texts, folio_batch** out,
                                       folio_error** error);
/* Adds a text, with callbacks as folio_generate has, and `ended`, which is called once; all may be
 * NULL. `id`, which may be NULL too, is for folio_batch_cancel. */
FOLIO_API folio_status folio_batch_add(folio_batch* batch, const int32_t* ids, size_t count,
                                       const folio_options* options,
                                       int (*text)(void* user, const char* text, size_t length),
                                       void (*ended)(void* user, int32_t end), void* user,
                                       uint64_t* id, folio_error** error);
/* A token more for each text, or a part of one long prompt: a few milliseconds for a small model,
 * so that a loop that draws pictures can call it between two. `more` is 0 when there is nothing
 * left. After an error all texts are gone. */
FOLIO_API folio_status folio_batch_step(folio_batch* batch, int32_t* more, folio_error** error);
/* Ends a text as FOLIO_END_CANCELLED; nothing for one that has ended. */
FOLIO_API folio_status folio_batch_cancel(folio_batch* batch, uint64_t id, folio_error** error);
FOLIO_API void folio_batch_free(folio_batch* batch);

/* ---- Looking inside -------------------------------------------------------------------------- */

/* `ids` are 1 to folio_model_context of the model's tokens. All results are float32 in row-major
 * order unless something else is said. */

/* Logits of the token behind each of ids[first] and later: (count - first, V). */
FOLIO_API folio_status folio_logits(const folio_model* model, const int32_t* ids, size_t count,
                                    size_t first, const folio_watch* watch, folio_buffer* logits,
                                    folio_error** error);
/* ln of the probability (double) that the model gives ids[i] behind those before it, for i from
 * `first`, 1 at least: (count - first). V logits at a time are in memory, not all. */
FOLIO_API folio_status folio_score(const folio_model* model, const int32_t* ids, size_t count,
                                   size_t first, const folio_watch* watch,
                                   folio_buffer* log_probabilities, folio_error** error);
/* The last layer's normed output: "mean" over the tokens (C), that of the "last" (C), or of "all"
 * (count, C). */
FOLIO_API folio_status folio_embed(const folio_model* model, const int32_t* ids, size_t count,
                                   const char* pooling, const folio_watch* watch,
                                   folio_buffer* embedding, folio_error** error);
/* What each token attends to, of one head of one layer, both from 0: (count, count), rows are
 * queries. The model must be opened with dtype=fp32. */
FOLIO_API folio_status folio_attention(const folio_model* model, const int32_t* ids, size_t count,
                                       int64_t layer, int64_t head, folio_buffer* weights,
                                       folio_error** error);

/* What a pass has at one point of one layer, from 0: (count, its width). Points are, in their
 * order, "embedded", "ln_1", "qkv", "heads", "attention", "middle", "ln_2", "up", "activated",
 * "mlp", "output" and "final"; the first and the last are there once, as layer 0. The model must be
 * opened with dtype=fp32. */
FOLIO_API folio_status folio_trace(const folio_model* model, const int32_t* ids, size_t count,
                                   const char* point, int64_t layer, folio_buffer* rows,
                                   folio_error** error);

/* ---- Training -------------------------------------------------------------------------------- */

/* Makes a data set of texts (files, directories, lines of JSON) in a directory, which appears when
 * it is whole, with `options` of "prepare"; stopped, the same call goes on. */
FOLIO_API folio_status folio_data_prepare(const char* const* texts, size_t count,
                                          const char* directory, const folio_options* options,
                                          const folio_watch* watch, folio_error** error);

typedef struct folio_train folio_train;
/* Prepares training on texts (files, directories, or one data set) into the run directory `run`:
 * gathers the settings, makes tokens. `options` of "train": every setting of `folio config show`,
 * and "preset", "resume" and "overwrite"; LoRA by train.init and lora.rank. Stopped or failed, it
 * leaves `run` as it was. `watch` may be NULL. */
FOLIO_API folio_status folio_train_new(const char* const* data, size_t count, const char* run,
                                       const folio_options* options, const folio_watch* watch,
                                       folio_train** out, folio_error** error);
/* Trains, once, to the end or until it is stopped, and leaves a checkpoint in either case: a run
 * that was stopped returns FOLIO_OK and goes on with "resume"; `cancel` and `poll` drop the step
 * that is being made. `json`, which may be NULL, becomes
 * {"step", "tokens", "seconds", "stopped", "ended_by", "train_loss", "val_loss", "best_val_loss",
 * "best_step"}. The run directory is a model for folio_model_open. */
FOLIO_API folio_status folio_train_run(folio_train* train, const folio_watch* watch,
                                       folio_buffer* json, folio_error** error);
FOLIO_API void folio_train_free(folio_train* train);

/* Training step by step, on batches of the caller's, in memory alone. */
typedef struct folio_trainer folio_trainer;
/* A new model of `options` of "train" (model.vocab_size must be given, or a preset with it), or,
 * where it is not NULL, one that begins as `from`, opened with dtype=fp32; with lora.rank adapters
 * are trained beside that. */
FOLIO_API folio_status folio_trainer_new(const folio_options* options, const folio_model* from,
                                         folio_trainer** out, folio_error** error);
/* {"step", "sequences" of a batch, "sequences_at_a_time", "context", "config": {...}, "tensors":
 * [name, ...]} */
FOLIO_API folio_status folio_trainer_info(const folio_trainer* trainer, folio_buffer* json,
                                          folio_error** error);
/* The numbers of a step, counted from 0. */
typedef struct folio_step {
  size_t size; /* sizeof(folio_step), which the caller sets */
  int64_t step;
  double loss; /* in nats per token */
  double learning_rate, gradient_norm, tokens_per_second;
  int32_t
      skipped; /* not 0: a loss or gradient was not finite, or a spike, and nothing was changed */
} folio_step;
/* Makes a step. `inputs` and `targets` are `count` ids each, (sequences, context); a target of -1
 * is none. What is cancelled has not begun. `out` may be NULL. FOLIO_DIVERGED after
 * train.max_skipped_steps skipped in a row. */
FOLIO_API folio_status folio_trainer_step(folio_trainer* trainer, const int32_t* inputs,
                                          const int32_t* targets, size_t count,
                                          const folio_cancel* cancel, folio_step* out,
                                          folio_error** error);
/* The mean loss, without learning, of any number of times sequences_at_a_time. */
FOLIO_API folio_status folio_trainer_evaluate(folio_trainer* trainer, const int32_t* inputs,
                                              const int32_t* targets, size_t count,
                                              const folio_cancel* cancel, double* loss,
                                              folio_error** error);
/* A parameter where it lies, or with `gradient` other than 0 the last step's gradient of it, before
 * clipping: both change with the next step and live as long as the trainer. */
FOLIO_API folio_status folio_trainer_tensor(folio_trainer* trainer, const char* name,
                                            int32_t gradient, folio_tensor* out,
                                            folio_error** error);
/* Writes a model that folio_model_open opens, with the tokenizer if there is one, adapters merged,
 * and what folio_trainer_resume goes on from, byte for byte. The directory appears as a whole. */
FOLIO_API folio_status folio_trainer_save(const folio_trainer* trainer, const char* directory,
                                          const folio_tokenizer* tokenizer, folio_error** error);
FOLIO_API folio_status folio_trainer_resume(folio_trainer* trainer, const char* directory,
                                            folio_error** error);
/* A copy of the model as it is now, with the tokenizer if there is one: to write with. */
FOLIO_API folio_status folio_trainer_model(const folio_trainer* trainer,
                                           const folio_tokenizer* tokenizer, folio_model** out,
                                           folio_error** error);
FOLIO_API void folio_trainer_free(folio_trainer* trainer);

#ifdef __cplusplus
}
#endif

#endif
