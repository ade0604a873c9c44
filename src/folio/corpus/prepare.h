#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "folio/data/dataset.h"

namespace folio {

class Workers;

struct PrepareOptions {
  std::vector<std::string> files = {};  // read in this order; "-" is standard input
  std::string tokenizer = "char";       // char | bytes | what OpenTokenizer takes
  std::string out = {};                 // directory
  double val_fraction = 0.1;            // in [0, 1): the part of the text that is held out
  std::string val_split = "spread";     // spread | tail: where in the text the held-out part is
  bool overwrite = false;               // replace a data set that is already there
  std::string special = "ordinary";     // treatment of special tokens: allow | raise | ordinary
  // Special tokens were added to the tokenizer for these files: in texts they are allowed. In
  // conversations, whose messages are ordinary text, the template writes them.
  bool added_tokens = false;
  std::string format = "folio";        // folio | llmc
  int64_t shard_tokens = 0;            // of each file; 0: one file for each part
  std::string field = {};              // as in TextOptions
  std::string chat_template = {};      // for conversations; "": the tokenizer's own
  bool raw = false;                    // as in TextOptions, only with the tokenizer `bytes`
  std::string standard_input = {};     // a file with the contents of standard input; "": read it
  bool keep_partial = true;            // unfinished work remains, to be continued later
  int64_t checkpoint_bytes = 1 << 26;  // of tokens, after which progress is made durable
  int64_t piece_bytes = 0;             // of text in a piece; 0: chosen by the number of threads
  // Other ranks that help, each in PrepareAsWorker, if they see the same files; null for none.
  Workers* workers = nullptr;
};

struct PrepareHooks {
  // Called with the number of bytes read and their total; everything is read twice. May throw to
  // stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Called before that, while a file is unpacked or converted, with the bytes of text so far. May
  // throw to stop.
  std::function<void(const std::string& path, int64_t bytes)> converting = {};
  // Called once before `progress` if earlier work is continued, with the bytes already read.
  std::function<void(int64_t done)> going_on = {};
  // Called with sentences to show, for example that earlier work is continued.
  std::function<void(const std::string& text)> note = {};
};

// Turns text files into a data set directory, on all threads, with memory that does not grow with
// the files. Neither threads, ranks nor sizes of pieces change what is written.
//
// JSON lines that are conversations (corpus/conversation_lines.h) become a data set of
// conversations (DatasetInfo::chat): the tokenizer gets the tokens of text/chat.h unless it has a
// chat template or one is given. Of n conversations int((1 - val_fraction) * n) are the training
// part: the first ones with `tail`, else all but evenly spread ones. The rules for texts below do
// not apply to them: interrupted work starts again, and only one rank works.
//
// A file is a document, and so is the `field` of each object in JSON lines. The kind of a file
// follows from its contents (text_stream.h): gzip, bzip2, xz and zstd, UTF-16, other layouts of
// JSON, and input that can be read only once are first unpacked and converted into a file beside
// the data set, which is removed when the data set is complete. Files that are not text are
// refused. The text consists of all documents in order; int((1 - val_fraction) * n) of its n
// characters (bytes with the tokenizer `bytes`) are the training part: exactly the first ones with
// `tail`, else about that many between blocks of held-out text (PlanMaker::FindAll). A document
// that is cut is encoded as several texts. Invalid UTF-8 counts a character for each byte that does
// not continue one. An end-of-text token, if the tokenizer has one, separates documents.
//
// The data grows in `.NAME.partial` beside the directory, which appears under its name when it is
// complete; a directory that contains anything but a data set is never replaced. After an
// interruption, even a kill, the same call continues, with the same result. Work that cannot be
// continued, because files, tokenizer or options have changed, starts again. Nothing remains if a
// file is invalid, or with keep_partial = false.
//
// Throws a kUsage Error for invalid options, a kInput Error for files (missing, empty, changed
// while being read, with a character without a token or a special token that is not allowed) and
// for a tokenizer that cannot be opened, and a kRuntime Error if `out` cannot be written.
DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareHooks& hooks = {});

}  // namespace folio
