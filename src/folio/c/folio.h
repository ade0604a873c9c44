/* folio for C, and for every language that calls C: tokenizers, generating text, looking inside of
 * models, training and fine-tuning, in one shared library. For C++ see api/model.h and
 * api/batch_trainer.h, on which this is built.
 *
 *   pkg-config --cflags --libs folio
 *
 * Rules for every function:
 *
 * - Errors. A function that can fail returns a folio_status and takes a `folio_error **` last,
 *   which may be NULL. It is set only if the status is not FOLIO_OK; free it with
 *   folio_error_free. Results are written only with FOLIO_OK. Wrong arguments, broken files and a
 *   lack of memory are such errors, and name the argument: NULL unless it is allowed, "" for a
 *   path, a path longer than the system's limit, counts out of range. No function ends the process,
 *   except for a mistake in folio itself (folio_set_fatal).
 *
 * - Ownership. Results of an `out` parameter or of a function that ends in _new are freed by the
 *   _free function of their kind; freeing NULL does nothing. Everything else is borrowed, for as
 *   long as its comment says. Handles keep what they need: they may be freed in any order.
 *
 * - Threads. A `const` handle, a batch and a trainer may be used by any number of threads at a
 *   time, any other handle by one. Calls that compute with one model, batch or trainer wait for
 * each other; all share the threads of folio_set_threads, whose number changes no result. A process
 *   made by fork may use the handles of its parent, whatever other threads did with them then; but
 *   a batch or a trainer that was in use by one of them is a FOLIO_USAGE there.
 *
 * - Texts are UTF-8 with a length in bytes, and may contain zeros; names and paths end in a zero.
 *   Token ids are int32_t. Sizes: T tokens, V tokens of the vocabulary, C channels, H heads.
 *
 * - Callbacks run on the calling thread, may call folio_cancel_request and functions of tokenizers
 *   (calls that compute with the same model are a FOLIO_USAGE), and must not exit by longjmp or an
 *   exception. Those that return an int return 0 to continue.
 *
 * - The library prints nothing, handles no signals, and reads no environment variables except
 *   FOLIO_HOME, XDG_CACHE_HOME and HOME, to find a published tokenizer by its name.
 *
 * - Until version 1.0 functions may change with a minor version; later they are only added. A test
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

/* 0, or the kind of failure. Statuses may be added; treat an unknown one as FOLIO_RUNTIME. */
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

/* "usage" for FOLIO_USAGE; "unknown" for a number that is no status. */
FOLIO_API const char* folio_status_name(folio_status status);
/* Where and what; the cause; what to do. Each may be "", none is NULL. They are valid as long as
 * the error. */
FOLIO_API const char* folio_error_message(const folio_error* error);
FOLIO_API const char* folio_error_cause(const folio_error* error);
FOLIO_API const char* folio_error_help(const folio_error* error);
FOLIO_API void folio_error_free(folio_error* error);

/* ---- The library ----------------------------------------------------------------------------- */

/* major << 16 | minor << 8 | patch, of the loaded library. */
FOLIO_API uint32_t folio_version(void);

enum { FOLIO_LOG_DEBUG = 0, FOLIO_LOG_INFO = 1, FOLIO_LOG_WARNING = 2, FOLIO_LOG_ERROR = 3 };
/* Sends messages from `level` on to `log`, one at a time, from any thread; NULL (the default) drops
 * them. */
FOLIO_API void folio_set_log(int32_t level,
                             void (*log)(void* user, int32_t level, const char* text,
                                         size_t length),
                             void* user);
/* Sets a function that is called before the process aborts, which happens only for a mistake in
 * folio: `text` says where. */
FOLIO_API void folio_set_fatal(void (*fatal)(void* user, const char* text), void* user);
/* Sets the number of threads for all computations, 1 to 4096; the default is the number of
 * processor cores. Calls in progress keep the number that they began with. */
FOLIO_API folio_status folio_set_threads(int32_t threads, folio_error** error);

/* ---- Buffers, options, cancelling ------------------------------------------------------------ */

/* A result whose size only folio knows. Each call that fills it replaces its contents; reusing one
 * avoids allocations. */
typedef struct folio_buffer folio_buffer;
/* NULL if memory runs out, like all functions that end in _new. */
FOLIO_API folio_buffer* folio_buffer_new(void);
/* Aligned for every type of number; followed by a zero byte that does not count. Valid until the
 * buffer is filled again or freed. */
FOLIO_API const void* folio_buffer_data(const folio_buffer* buffer);
FOLIO_API size_t folio_buffer_size(const folio_buffer* buffer); /* bytes */
FOLIO_API void folio_buffer_free(folio_buffer* buffer);

/* Options by name. Wherever options are taken, NULL stands for the defaults. */
typedef struct folio_options folio_options;
/* `kind` is "open", "generate", "train", "prepare" or "tokenizer"; returns NULL for any other. */
FOLIO_API folio_options* folio_options_new(const char* kind);
/* Sets one, from text: ("temperature", "0.8"). An unknown name and a value out of range are a
 * FOLIO_USAGE. "stop" of "generate" adds a text that ends the output, "special_token" of
 * "tokenizer" adds a token. */
FOLIO_API folio_status folio_options_set(folio_options* options, const char* name,
                                         const char* value, folio_error** error);
/* All options of a kind as JSON: [{"name", "type", "value", "help"}, ...], value being the default.
 * The type is "integer", "number", "true|false", "text", the allowed values ("a|b"), each with
 * "|null" if it may be unset, or "texts" for an option that may be set several times. */
FOLIO_API folio_status folio_options_describe(const char* kind, folio_buffer* json,
                                              folio_error** error);
FOLIO_API void folio_options_free(folio_options* options);

/* A request to stop, which any thread and any signal handler may make. A stopped call returns
 * FOLIO_CANCELLED and leaves nothing half-done, except that texts and runs report how they ended;
 * wherever one is taken it may be NULL. */
typedef struct folio_cancel folio_cancel;
FOLIO_API folio_cancel* folio_cancel_new(void);
FOLIO_API void folio_cancel_request(folio_cancel* cancel);
FOLIO_API void folio_cancel_reset(folio_cancel* cancel);
FOLIO_API void folio_cancel_free(folio_cancel* cancel);

/* Callbacks during long work; each may be NULL. A callback that returns other than 0 stops the
 * work, like `cancel`. */
typedef struct folio_watch {
  size_t size; /* sizeof(folio_watch), for versions that have more members */
  void* user;
  const folio_cancel* cancel;
  /* Progress: for text in bytes, for a model in parameters, for a prompt in tokens if it takes
   * several passes, for a tokenizer first in bytes of text and then in merges. */
  int (*progress)(void* user, int64_t done, int64_t total);
  /* A step is done, counted from 0; the loss is in nats per token. */
  int (*step)(void* user, int64_t step, double loss, double learning_rate,
              double tokens_per_second);
  /* Losses before a step, on training data and on held-out data. */
  int (*evaluation)(void* user, int64_t step, double train_loss, double held_out_loss);
  /* Called by folio_train_run on the calling thread, between the operations of a step and the
   * batches of an evaluation: for hosts whose interrupts only that thread sees. */
  int (*poll)(void* user);
} folio_watch;

/* Numbers in memory, in row-major order. */
typedef struct folio_tensor {
  size_t size; /* sizeof(folio_tensor), which the caller sets */
  const void* data;
  const char* dtype; /* "F32", "BF16", "F16", or a block type of ggml, "Q8_0" */
  uint64_t bytes;
  int32_t rank;
  int64_t shape[8]; /* `rank` of them */
} folio_tensor;

/* ---- Files in memory ------------------------------------------------------------------------- */

/* A directory of files in memory. Its path, and that of a file in it, are accepted wherever a model
 * or a tokenizer is opened. What was opened keeps the memory that it needs after this is freed. */
typedef struct folio_files folio_files;
FOLIO_API folio_files* folio_files_new(void);
/* Adds a file, whose bytes are copied. */
FOLIO_API folio_status folio_files_add(folio_files* files, const char* name, const void* bytes,
                                       size_t size, folio_error** error);
/* The same for a file that `read` returns piece by piece: it fills `bytes` with `count` bytes from
 * `offset` on, and returns other than 0 on failure (FOLIO_INPUT). */
FOLIO_API folio_status folio_files_read(folio_files* files, const char* name, uint64_t size,
                                        int (*read)(void* user, uint64_t offset, void* bytes,
                                                    size_t count),
                                        void* user, folio_error** error);
/* Valid as long as `files`; "" for NULL. */
FOLIO_API const char* folio_files_path(const folio_files* files);
FOLIO_API void folio_files_free(folio_files* files);

/* ---- Tokenizers ------------------------------------------------------------------------------ */

typedef struct folio_tokenizer folio_tokenizer;
/* Opens the tokenizer that `spec` names: a published encoding that was fetched ("gpt2",
 * "o200k_base"), "bytes", or a path: a directory or file of a tokenizer, or a training run. */
FOLIO_API folio_status folio_tokenizer_open(const char* spec, folio_tokenizer** out,
                                            folio_error** error);
/* How the texts of special tokens ("<|endoftext|>") are encoded. */
enum {
  FOLIO_SPECIAL_ORDINARY = 0, /* as ordinary text */
  FOLIO_SPECIAL_ALLOW = 1,    /* as the tokens */
  FOLIO_SPECIAL_RAISE = 2     /* not at all: a FOLIO_INPUT */
};
/* The ids (int32_t) of a text. If special texts are ordinary, a long text is encoded on all threads
 * and reports progress to `watch`. */
FOLIO_API folio_status folio_tokenizer_encode(const folio_tokenizer* tokenizer, const char* text,
                                              size_t length, int32_t special,
                                              const folio_watch* watch, folio_buffer* ids,
                                              folio_error** error);
/* The same for many texts, with special texts as ordinary text: the ids of text i are
 * ids[offsets[i]] to ids[offsets[i + 1] - 1], with `count` + 1 offsets (int64_t). */
FOLIO_API folio_status folio_tokenizer_encode_batch(const folio_tokenizer* tokenizer,
                                                    const char* const* texts, const size_t* lengths,
                                                    size_t count, const folio_watch* watch,
                                                    folio_buffer* ids, folio_buffer* offsets,
                                                    folio_error** error);
/* The bytes of tokens, which need not be UTF-8. */
FOLIO_API folio_status folio_tokenizer_decode(const folio_tokenizer* tokenizer, const int32_t* ids,
                                              size_t count, folio_buffer* bytes,
                                              folio_error** error);
/* The bytes of one token, which are valid as long as the tokenizer and do not end in a zero. */
FOLIO_API folio_status folio_tokenizer_token(const folio_tokenizer* tokenizer, int32_t id,
                                             const char** bytes, size_t* length,
                                             folio_error** error);
/* {"kind", "vocab_size", "end_of_text", "special_tokens": [{"text", "id"}, ...], "hash"} */
FOLIO_API folio_status folio_tokenizer_info(const folio_tokenizer* tokenizer, folio_buffer* json,
                                            folio_error** error);
/* Writes tokenizer.json and its companion files into an existing directory. */
FOLIO_API folio_status folio_tokenizer_save(const folio_tokenizer* tokenizer, const char* directory,
                                            folio_error** error);
FOLIO_API void folio_tokenizer_free(folio_tokenizer* tokenizer);
/* Trains a byte-level BPE on the documents of texts (files or directories), with `options` of
 * "tokenizer", and writes it to a directory that appears when it is complete. */
FOLIO_API folio_status folio_tokenizer_train(const char* const* texts, size_t count,
                                             const char* directory, const folio_options* options,
                                             const folio_watch* watch, folio_error** error);

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct folio_model folio_model;
/* Opens the model at `path`, in any format that folio reads: a training run, a directory of Hugging
 * Face's, a GGUF file. `options` are of "open". The file is mapped: it must not change while the
 * model is open. */
FOLIO_API folio_status folio_model_open(const char* path, const folio_options* options,
                                        const folio_watch* watch, folio_model** out,
                                        folio_error** error);
/* {"config": {...}, "parameters", "dtype", "path", "note", "tensors": [name, ...]} */
FOLIO_API folio_status folio_model_info(const folio_model* model, folio_buffer* json,
                                        folio_error** error);
/* V, C and the longest context, for allocating results; 0 for NULL. */
FOLIO_API int64_t folio_model_vocab_size(const folio_model* model);
FOLIO_API int64_t folio_model_width(const folio_model* model);
FOLIO_API int64_t folio_model_context(const folio_model* model);
/* The model's tokenizer, or NULL. Valid as long as the model. */
FOLIO_API const folio_tokenizer* folio_model_tokenizer(const folio_model* model);
/* The ids for the model to continue: the text after the tokens that the tokenizer puts before
 * texts. Never empty: for an empty text it is the token that separates texts. */
FOLIO_API folio_status folio_model_prompt(const folio_model* model, const char* text, size_t length,
                                          folio_buffer* ids, folio_error** error);
/* The same for a conversation in the model's own template, up to the begin of its answer. `roles`
 * are "system", "user", "assistant" and "tool"; both texts of a message end in a zero. What
 * folio_generate writes after these ids is an answer: set "defaults" of its options to "chat" to
 * sample like `folio chat`. */
FOLIO_API folio_status folio_model_chat(const folio_model* model, const char* const* roles,
                                        const char* const* texts, size_t count, folio_buffer* ids,
                                        folio_error** error);
/* The same for a conversation in JSON, in the form of OpenAI's API: {"messages": [{"role",
 * "content", "tool_calls", "reasoning_content", ...}, ...], "tools": [...], "chat_template_kwargs":
 * {...}}; the last two may be missing. Members that the template ignores are an error. */
FOLIO_API folio_status folio_model_chat_json(const folio_model* model, const char* json,
                                             size_t length, folio_buffer* ids, folio_error** error);
/* A parameter by its name, valid as long as the model. It is a copy only if the backend has a
 * memory of its own. */
FOLIO_API folio_status folio_model_tensor(const folio_model* model, const char* name,
                                          folio_tensor* out, folio_error** error);
/* Writes a model that was opened with dtype=fp32, and its tokenizer, as "hf", "gguf" or another
 * format of `folio convert`, with matrices as "fp32", "bf16", "q8_0" or another dtype of that
 * command. `path` must not exist. */
FOLIO_API folio_status folio_model_save(const folio_model* model, const char* path,
                                        const char* format, const char* dtype, folio_error** error);
FOLIO_API void folio_model_free(folio_model* model);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Why a text ended. */
enum {
  FOLIO_END_LENGTH = 0,  /* max_tokens */
  FOLIO_END_STOP = 1,    /* an end of text or of a turn, a text of "stop", or the callback */
  FOLIO_END_CONTEXT = 2, /* the context is full, with when_full=stop */
  FOLIO_END_CANCELLED = 3
};
/* Continues `ids`, with `options` of "generate". Each part of the text is passed to `text` as soon
 * as it is known, in whole characters; it returns other than 0 to end the text. `text`, `whole`
 * (the complete text) and `end` may be NULL. The same seed gives the same text.
 *
 * With defaults=chat, options that were not set are those of `folio chat`: what the model's files
 * suggest (generation_config.json, general.sampling.* of a GGUF file), else temperature 0.3, top_k
 * 40, top_p 0.9 and min_p 0.05; and at most 512 tokens. */
FOLIO_API folio_status folio_generate(const folio_model* model, const int32_t* ids, size_t count,
                                      const folio_options* options,
                                      int (*text)(void* user, const char* text, size_t length),
                                      void* user, const folio_watch* watch, folio_buffer* whole,
                                      int32_t* end, folio_error** error);

/* Texts that are generated together: they may be added and cancelled between steps, each is the
 * same as alone, and several cost little more than one. */
typedef struct folio_batch folio_batch;
/* A batch of at most `texts` texts at once; more wait for their turn. */
FOLIO_API folio_status folio_batch_new(const folio_model* model, int32_t texts, folio_batch** out,
                                       folio_error** error);
/* Adds a text, with callbacks like folio_generate's, and `ended`, which is called once; all may be
 * NULL. `id`, which may be NULL too, is for folio_batch_cancel. */
FOLIO_API folio_status folio_batch_add(folio_batch* batch, const int32_t* ids, size_t count,
                                       const folio_options* options,
                                       int (*text)(void* user, const char* text, size_t length),
                                       void (*ended)(void* user, int32_t end), void* user,
                                       uint64_t* id, folio_error** error);
/* Generates one more token for each text, or processes a part of one long prompt: a few
 * milliseconds for a small model, so that a rendering loop can call it between frames. `more` is 0
 * when nothing is left. After an error all texts are gone. */
FOLIO_API folio_status folio_batch_step(folio_batch* batch, int32_t* more, folio_error** error);
/* Ends a text as FOLIO_END_CANCELLED; does nothing if it has ended. */
FOLIO_API folio_status folio_batch_cancel(folio_batch* batch, uint64_t id, folio_error** error);
FOLIO_API void folio_batch_free(folio_batch* batch);

/* ---- Looking inside -------------------------------------------------------------------------- */

/* `ids` are 1 to folio_model_context of the model's tokens. All results are float32 in row-major
 * order unless stated otherwise. */

/* Logits for the token after each of ids[first] and later: (count - first, V). */
FOLIO_API folio_status folio_logits(const folio_model* model, const int32_t* ids, size_t count,
                                    size_t first, const folio_watch* watch, folio_buffer* logits,
                                    folio_error** error);
/* ln of the probability (double) that the model gives ids[i] after those before it, for i from
 * `first`, at least 1: (count - first). Keeps V logits in memory at a time, not all. */
FOLIO_API folio_status folio_score(const folio_model* model, const int32_t* ids, size_t count,
                                   size_t first, const folio_watch* watch,
                                   folio_buffer* log_probabilities, folio_error** error);
/* The last layer's normed output: "mean" over the tokens (C), the "last" token's (C), or "all"
 * (count, C). */
FOLIO_API folio_status folio_embed(const folio_model* model, const int32_t* ids, size_t count,
                                   const char* pooling, const folio_watch* watch,
                                   folio_buffer* embedding, folio_error** error);
/* The attention weights of one head of one layer, both from 0: (count, count), rows are queries.
 * The model must be opened with dtype=fp32. */
FOLIO_API folio_status folio_attention(const folio_model* model, const int32_t* ids, size_t count,
                                       int64_t layer, int64_t head, folio_buffer* weights,
                                       folio_error** error);

/* The intermediate result of a pass at one point of one layer, from 0: (count, width of the point).
 * Points are, in order, "embedded", "ln_1", "qkv", "heads", "attention", "middle", "ln_2", "up",
 * "activated", "mlp", "output" and "final"; the first and the last exist once, as layer 0. The
 * model must be opened with dtype=fp32. */
FOLIO_API folio_status folio_trace(const folio_model* model, const int32_t* ids, size_t count,
                                   const char* point, int64_t layer, folio_buffer* rows,
                                   folio_error** error);

/* ---- Training -------------------------------------------------------------------------------- */

/* Makes a data set from texts (files, directories, lines of JSON), with `options` of "prepare", in
 * a directory that appears when it is complete; after a stop the same call continues. */
FOLIO_API folio_status folio_data_prepare(const char* const* texts, size_t count,
                                          const char* directory, const folio_options* options,
                                          const folio_watch* watch, folio_error** error);

typedef struct folio_train folio_train;
/* Prepares training on texts (files, directories, or one data set) into the run directory `run`:
 * resolves the settings, encodes the texts. `options` are of "train": every setting of `folio
 * config show`, and "preset", "resume" and "overwrite"; LoRA by train.init and lora.rank. If it is
 * stopped or fails, `run` is unchanged. `watch` may be NULL. */
FOLIO_API folio_status folio_train_new(const char* const* data, size_t count, const char* run,
                                       const folio_options* options, const folio_watch* watch,
                                       folio_train** out, folio_error** error);
/* Trains, once, to the end or until it is stopped, and leaves a checkpoint in either case: a
 * stopped run returns FOLIO_OK and continues with "resume"; `cancel` and `poll` drop the step in
 * progress. `json`, which may be NULL, becomes
 * {"step", "tokens", "seconds", "stopped", "ended_by", "train_loss", "val_loss", "best_val_loss",
 * "best_step"}. The run directory is a model for folio_model_open. */
FOLIO_API folio_status folio_train_run(folio_train* train, const folio_watch* watch,
                                       folio_buffer* json, folio_error** error);
FOLIO_API void folio_train_free(folio_train* train);

/* Training step by step, on the caller's batches, in memory alone. */
typedef struct folio_trainer folio_trainer;
/* Trains a new model with `options` of "train" (model.vocab_size must be given, or a preset with
 * it), or, if `from` is not NULL, a copy of that, which must be opened with dtype=fp32; with
 * lora.rank adapters are trained on top of it. */
FOLIO_API folio_status folio_trainer_new(const folio_options* options, const folio_model* from,
                                         folio_trainer** out, folio_error** error);
/* {"step", "sequences" of a batch, "sequences_at_a_time", "context", "config": {...}, "tensors":
 * [name, ...]} */
FOLIO_API folio_status folio_trainer_info(const folio_trainer* trainer, folio_buffer* json,
                                          folio_error** error);
/* The results of a step, counted from 0. */
typedef struct folio_step {
  size_t size; /* sizeof(folio_step), which the caller sets */
  int64_t step;
  double loss; /* in nats per token */
  double learning_rate, gradient_norm, tokens_per_second;
  int32_t
      skipped; /* not 0: a loss or gradient was not finite, or a spike, and nothing was changed */
} folio_step;
/* Makes a step. `inputs` and `targets` are `count` ids each, (sequences, context); a target of -1
 * is none. A cancelled step changes nothing. `out` may be NULL. FOLIO_DIVERGED after
 * train.max_skipped_steps skipped steps in a row. */
FOLIO_API folio_status folio_trainer_step(folio_trainer* trainer, const int32_t* inputs,
                                          const int32_t* targets, size_t count,
                                          const folio_cancel* cancel, folio_step* out,
                                          folio_error** error);
/* The mean loss, without training, over a multiple of sequences_at_a_time sequences. */
FOLIO_API folio_status folio_trainer_evaluate(folio_trainer* trainer, const int32_t* inputs,
                                              const int32_t* targets, size_t count,
                                              const folio_cancel* cancel, double* loss,
                                              folio_error** error);
/* A parameter without a copy, or with `gradient` other than 0 its gradient in the last step, before
 * clipping: both change with the next step and are valid as long as the trainer. If the backend has
 * a memory of its own, both are copies, which change when they are asked for again. */
FOLIO_API folio_status folio_trainer_tensor(folio_trainer* trainer, const char* name,
                                            int32_t gradient, folio_tensor* out,
                                            folio_error** error);
/* Writes a model that folio_model_open opens, with the tokenizer if there is one, adapters merged,
 * and the state from which folio_trainer_resume continues, byte for byte. The directory appears as
 * a whole. */
FOLIO_API folio_status folio_trainer_save(const folio_trainer* trainer, const char* directory,
                                          const folio_tokenizer* tokenizer, folio_error** error);
FOLIO_API folio_status folio_trainer_resume(folio_trainer* trainer, const char* directory,
                                            folio_error** error);
/* A copy of the model as it is now, with the tokenizer if there is one: for generating text. */
FOLIO_API folio_status folio_trainer_model(const folio_trainer* trainer,
                                           const folio_tokenizer* tokenizer, folio_model** out,
                                           folio_error** error);
FOLIO_API void folio_trainer_free(folio_trainer* trainer);

#ifdef __cplusplus
}
#endif

#endif
