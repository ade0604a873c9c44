#pragma once

#include <string_view>

namespace folio {

// The words of other programs that foreign_words.h helps with.

// A row of the table of commands. It applies if folio has the command that it leads to.
struct ForeignCommand {
  std::string_view words;    // separated by spaces
  std::string_view command;  // folio's command
  std::string_view help;
};

// Among rows with the same word the first that applies is used.
inline constexpr ForeignCommand kForeignCommands[] = {
    {"run start launch", "chat",
     "folio chat MODEL chats with a model, folio generate MODEL continues a text"},
    {"ask talk repl cli main interactive instruct conversation llama-cli simple-chat", "chat",
     "folio chat MODEL chats with a model; folio generate MODEL --chat TEXT answers once"},
    {"sample complete predict infer inference write text gen completions pipeline", "generate",
     "folio generate MODEL --prompt TEXT continues a text"},
    {"pull download get install clone", "fetch", "folio fetch NAME downloads a published model"},
    {"list ls ps tags rm remove delete", "models",
     "folio models lists the models on this machine, and removes them"},
    {"list ls ps tags", "fetch", "folio fetch --list lists the published models"},
    {"rm remove delete", "fetch",
     "a model is a directory or a file: remove it like any other; folio fetch --help tells where "
     "downloads are stored"},
    {"show info describe summary stat", "inspect model",
     "folio inspect model MODEL describes a model"},
    {"create import cp push", "convert",
     "models need no import: each command takes a run, a directory or a file; folio convert MODEL "
     "OUT.gguf writes a model for other programs"},
    {"finetune fine-tune sft tune lora qlora peft adapt finetuning fine-tuning", "train",
     "folio train --init MODEL --data FILE --out RUN fine-tunes a model; --lora 8 trains only "
     "adapters"},
    {"pretrain fit learn trainer", "train", "folio train --data FILE --out RUN trains a model"},
    {"resume continue", "train", "folio train --resume --out RUN continues a run"},
    {"quantize quantise quant quantization llama-quantize imatrix", "convert",
     "folio convert MODEL OUT.gguf --dtype q4_k_m (or q8_0, q4_0) quantizes a model; --dtype int8 "
     "or int4 of the other commands quantizes it while it is opened"},
    {"perplexity ppl llama-perplexity loss", "eval perplexity",
     "folio eval perplexity MODEL FILE measures it"},
    {"evaluate evaluation benchmark lm-eval hellaswag mmlu test score", "eval perplexity",
     "folio eval perplexity MODEL FILE and folio eval cloze MODEL FILE measure models"},
    {"export merge merge-lora export-lora convert-hf-to-gguf save gguf onnx ollama", "convert",
     "folio convert MODEL OUT writes a model as gguf or hf, with an adapter merged"},
    {"server api web webui ui host dashboard llama-server open", "serve",
     "folio serve MODEL answers over HTTP and shows a page"},
    {"tensorboard wandb monitor", "serve",
     "folio serve --runs DIR shows runs while they train, folio plot RUN draws their curves"},
    {"prepare preprocess dataset datasets", "data prepare",
     "folio data prepare FILE prepares training data; folio train --data FILE also takes texts "
     "directly"},
    {"tokenize tokens", "tokenizer encode",
     "folio tokenizer encode FILE --tokenizer NAME converts a text to tokens"},
    {"detokenize", "tokenizer decode",
     "folio tokenizer decode FILE --tokenizer NAME converts tokens to a text"},
    {"bpe vocab train-tokenizer", "tokenizer train",
     "folio tokenizer train FILE --out DIR trains a tokenizer"},
    {"embed embedding embeddings", "serve",
     "folio serve MODEL answers /v1/embeddings; folio inspect embeddings MODEL shows the "
     "embeddings of tokens"},
    {"visualize visualise viz", "inspect attention",
     "folio inspect attention MODEL --text TEXT draws what heads attend to; folio plot RUN draws "
     "curves"},
    {"gpu gpus devices env system status check", "doctor",
     "folio doctor describes this machine; folio computes on the CPU, there is no GPU support yet"},
    {"settings options set init", "config show",
     "folio config show prints all settings; folio config show > folio.toml saves them in a file"},
    {"fit fits size memory vram", "plan fits",
     "folio plan fits lists the models that fit in memory"},
    {"size memory vram", "inspect plan",
     "folio inspect plan MODEL lists the memory of a training step"},
    {"login logout whoami auth signin signout", "version", "folio does not use accounts"},
    {"update upgrade self-update", "version",
     "folio does not update itself: build or install a newer version"},
    {"stop kill", "serve", "Ctrl-C or SIGTERM ends a service; nothing runs in the background"},
};

// A row of the table of flags. `leads_to` is a flag ("--max-tokens") or a setting ("model.n_embd")
// of folio, and the row applies if the command has it; or it is "" and the row always applies.
struct ForeignFlag {
  std::string_view words;  // long ones without the two dashes
  std::string_view leads_to;
  std::string_view help;  // additional text; the whole text for a row without a flag
};

inline constexpr std::string_view kNoGpu =
    "folio computes on the CPU, there is no GPU support yet; --threads sets the number of cores";

inline constexpr ForeignFlag kForeignFlags[] = {
    {"gpu gpus gpu-layers n-gpu-layers num-gpu -ngl device devices device-map cuda no-cuda cpu mps "
     "metal rocm vulkan main-gpu -mg tensor-split -ts split-mode -sm no-gpu use-gpu",
     "", kNoGpu},
    // Length of the output, and sampling.
    {"max-length max-new-tokens n-predict num-predict predict n-tokens num-tokens length "
     "max-output-tokens max-completion-tokens max-gen-len",
     "--max-tokens", ""},
    {"temp temperatur", "--temperature", ""},
    {"repeat-penalty rep-pen repetition", "--repetition-penalty", ""},
    {"repeat-last-n", "--no-repeat-ngram", "--repetition-penalty applies to the whole text"},
    {"no-repeat-ngram-size", "--no-repeat-ngram", ""},
    {"typical-p", "--typical", ""},
    {"num-beams beam-size beam", "--beams", ""},
    {"do-sample sample", "--temperature", "sampling is on unless it is 0 or --greedy is given"},
    {"no-sample no-do-sample argmax", "--greedy", ""},
    {"num-samples num-return-sequences n-samples best-of samples", "--n", ""},
    {"min-length min-new-tokens ignore-eos", "--min-tokens", ""},
    {"mirostat mirostat-lr mirostat-ent tfs tfs-z top-a dynatemp-range dry-multiplier "
     "xtc-probability grammar grammar-file json-schema response-format",
     "--top-p", "folio does not have this sampling method"},
    {"logprobs top-logprobs n-probs", "--probabilities", ""},
    {"start input text message query", "--prompt", ""},
    {"-i", "--interactive", "folio chat MODEL is for conversations in the terminal"},
    {"prompt-file input-file -f", "--file", ""},
    {"system-prompt system-message sys -sys system-prompt-file", "--system", ""},
    {"stop-sequence stop-sequences stop-token stop-tokens reverse-prompt -r", "--stop", ""},
    {"conversation cnv -cnv instruct chat-mode -no-cnv", "--chat",
     "folio chat MODEL is for conversations in the terminal"},
    {"model-draft draft-model -md speculative prompt-lookup", "--draft", ""},
    {"jinja chat-template-file template", "--chat-template", ""},
    {"stream no-stream streaming", "", "output is always streamed; no flag is needed"},
    // The model, and how it is stored.
    {"model-name-or-path model-path model-name model-id checkpoint ckpt ckpt-path pretrained "
     "pretrained-model from-pretrained base-model base weights",
     "--init", ""},
    {"model model-name-or-path model-path model-name model-id checkpoint ckpt ckpt-path pretrained "
     "pretrained-model from-pretrained base-model base weights init init-from run",
     "--model", ""},
    {"model -m", "--init", "--preset sets the size of a new model"},
    {"init-from", "--init", ""},
    {"hf-repo -hf hf-file repo repo-id model-url hub", "",
     "download the model first: folio fetch NAME"},
    {"lora lora-path lora-adapter lora-scaled peft peft-model adapter-path adapter-name",
     "--adapter", ""},
    {"torch-dtype precision load-in-8bit load-in-4bit quantization quantize quant outtype fp16 "
     "bf16 "
     "fp32 half int8 int4 4bit 8bit mixed-precision amp",
     "--dtype", ""},
    {"cache-type-k cache-type-v -ctk -ctv kv-cache-dtype kv-cache", "--bf16-cache", ""},
    {"no-mmap mlock mmap low-memory", "--load", ""},
    {"ctx-size -c num-ctx n-ctx context-size context-length max-seq-len max-seq-length "
     "max-position-embeddings max-model-len block-size sequence-length seq-len seq-length "
     "n-positions",
     "--context", ""},
    {"ctx-size -c num-ctx n-ctx context-size context-length max-seq-len max-seq-length "
     "max-model-len block-size sequence-length seq-len seq-length",
     "", "the context is a property of the model: folio inspect model MODEL shows it"},
    {"n-threads num-threads threads-batch -t -tb -j jobs num-workers nproc workers num-proc",
     "--threads", ""},
    {"vocab vocab-file vocab-path tokenizer-name tokenizer-path tokenizer-model tokenizer-file "
     "encoding",
     "--tokenizer", ""},
    // Training.
    {"epochs num-epochs num-train-epochs n-epochs epoch max-epochs", "--epochs", ""},
    {"epochs num-epochs num-train-epochs n-epochs epoch max-epochs", "--max-steps",
     "folio data info shows the number of tokens in an epoch"},
    {"max-iters num-iters iters iterations num-iterations steps num-steps total-steps "
     "max-train-steps train-steps",
     "--max-steps", ""},
    {"out-dir output-dir output outfile save-dir save-path log-dir -O", "--out", ""},
    {"dataset dataset-name data-path data-dir data-file data-files train-file train-files "
     "train-data training-data train-path input-data corpus input file text",
     "--data", ""},
    {"resume-from resume-from-checkpoint continue", "--resume", ""},
    {"lr-rate rate max-lr", "--lr", ""},
    {"lr-scheduler lr-scheduler-type lr-schedule scheduler", "train.schedule", ""},
    {"warmup warmup-iters warmup-ratio num-warmup-steps lr-warmup-steps", "train.warmup_steps", ""},
    {"lr-min min-learning-rate end-lr", "train.min_lr", ""},
    {"wd", "train.weight_decay", ""},
    {"max-grad-norm clip grad-clip gradient-clip gradient-clipping clip-grad-norm",
     "train.grad_clip", ""},
    {"per-device-train-batch-size micro-batch-size train-batch-size device-batch-size "
     "per-gpu-train-batch-size batch-size -b bs ubatch-size -ub",
     "--batch", ""},
    {"gradient-accumulation-steps gradient-accumulation grad-accum grad-accum-steps "
     "accumulate-grad-batches grad-acc",
     "--grad-accumulation", ""},
    {"gradient-checkpointing activation-checkpointing checkpoint-activations", "--recompute", ""},
    {"eval-interval eval-steps eval-freq evaluation-steps val-check-interval val-every eval-iters",
     "--eval-every", ""},
    {"log-interval logging-steps log-steps print-every", "--log-every", ""},
    {"sample-interval sample-freq", "--sample-every", ""},
    {"use-lora enable-lora peft lora-r lora-rank rank r", "--lora", "its value is the rank"},
    {"lora-alpha alpha", "lora.alpha", ""},
    {"lora-dropout", "lora.dropout", ""},
    {"lora-target lora-targets target-modules lora-target-modules", "lora.targets", ""},
    {"n-layers num-layers num-hidden-layers layers depth", "model.n_layer", ""},
    {"n-heads num-heads num-attention-heads heads", "model.n_head", ""},
    {"n-kv-heads num-key-value-heads", "model.n_kv_head", ""},
    {"hidden-size d-model dim width embed-dim n-embed n-embeds embedding-size", "model.n_embd", ""},
    {"intermediate-size ffn-dim d-ff mlp-dim", "model.n_inner", ""},
    {"val-ratio validation-split test-size eval-fraction", "--val-fraction", ""},
    {"text-column column text-field text-key", "--field", ""},
    {"early-stopping early-stopping-patience", "--patience", ""},
    {"wandb wandb-log wandb-project report-to mlflow", "--tensorboard",
     "folio serve --runs DIR shows runs while they train"},
    {"compile torch-compile no-compile", "", "nothing is compiled at run time; remove the flag"},
    {"deepspeed fsdp ddp nproc-per-node num-processes nnodes local-rank", "",
     "start several processes with MPI: mpirun -n 4 folio train ..."},
    // The service.
    {"parallel -np n-parallel max-num-seqs max-concurrency", "--slots", ""},
    {"api-key api-keys key token auth-token", "--api-key-file", "the keys are in a file"},
    {"hostname bind address listen listen-address ip", "--host", ""},
    {"alias served-model-name -a", "", "give the name before the model: folio serve NAME=MODEL"},
    {"cors-origin cors-origins allowed-origins allow-origins origins", "--cors", ""},
    {"ssl-key-file ssl-cert-file ssl-certfile ssl-keyfile ssl tls https", "--trusted-proxy",
     "use a proxy with TLS in front of the service"},
    {"embedding embeddings metrics props slots-endpoint", "",
     "folio serve answers /v1/embeddings and /metrics without a flag"},
    {"log-file", "--access-log", ""},
    {"webui no-webui", "", "the page is at the address of folio serve"},
    // Other commands.
    {"format output-format export-format type", "--to", ""},
    {"force yes -y -f", "--overwrite", ""},
    {"format output-format", "--json", ""},
    {"debug log-verbose", "--verbose", ""},
    {"silent log-disable no-log", "--quiet", ""},
    {"no-color no-colour nocolor", "--color", "--color never turns colours off"},
    {"random-seed manual-seed rng-seed -s", "--seed", ""},
};

}  // namespace folio
