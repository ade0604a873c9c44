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
  double val_fraction = 0.1;            // in [0, 1): the part of the text that becomes val.bin
  std::string val_split = "spread";     // spread | tail: where in the text that is
  bool overwrite = false;               // replace a data set that is already there
  std::string special = "ordinary";     // what special tokens in the text are: allow|raise|ordinary
  // The tokenizer was given special tokens for these files: in texts they are allowed. In
  // conversations, whose messages are ordinary text, the template writes them.
  bool added_tokens = false;
  std::string format = "folio";     // folio | llmc
  int64_t shard_tokens = 0;         // of each file; 0: one file for each part
  std::string field = {};           // as in TextOptions
  std::string chat_template = {};   // of conversations; "" for that of the tokenizer's files
  bool raw = false;                 // files are bytes, whatever they look like: for `bytes` alone
  std::string standard_input = {};  // a file with what standard input gave; "" to read it here
  bool keep_partial = true;         // what was begun stays when it ends early, to go on with
  int64_t checkpoint_bytes = 1 << 26;  // of tokens, after which progress is made durable
  int64_t piece_bytes = 0;             // of text that a thread takes at a time; 0: by the threads
  // Other ranks that help (each in PrepareAsWorker), those of which see the same files; null for
  // none.
  Workers* workers = nullptr;
};

struct PrepareHooks {
  // Called with the bytes that are done and their total; everything is read twice. May throw to
  // stop.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Called while a file is unpacked or converted first, with the bytes of text so far. May throw to
  // stop.
  std::function<void(const std::string& path, int64_t bytes)> converting = {};
  // Called once before `progress` where earlier work is continued, with the bytes that are done.
  std::function<void(int64_t done)> going_on = {};
  // Called with a sentence for people: earlier work is continued, or cannot be, or parts of the
  // text are left out.
  std::function<void(const std::string& text)> note = {};
};

// Turns text files into a data set directory, on all threads, with memory that does not grow with
// the files. Neither threads, ranks nor sizes of pieces change what is written.
//
// Lines of JSON that are conversations (corpus/conversation_lines.h) become a data set of
// conversations (DatasetInfo::chat): the tokenizer gets the tokens of text/chat.h unless it has a
// template or is given one, and of n conversations int((1 - val_fraction) * n) are the train part,
// of `tail` the first, else those between evenly spread ones. What is said of texts below does not
// hold for them: they are begun again where that ended early, and one rank alone deals with them.
//
// A file is a document, and each object of JSON lines is one: its `field`. What a file is follows
// from its contents (text_stream.h): gzip, bzip2, xz and zstd, UTF-16, other layouts of JSON and
// whatever can be read only once are unpacked and converted into a file beside the data set first,
// which goes when that is whole. What is no text is refused. The text is all
// documents in a row; int((1 - val_fraction) * n) of its n characters (for `bytes`: of its bytes)
// are the train part, of `tail` the first exactly, else about so many between blocks of held-out
// text (PlanMaker::FindAll). A document that is cut is encoded as several texts. Where bytes are
// not UTF-8, each that does not go on with a character counts as one. A tokenizer that has an
// end-of-text puts it between documents.
//
// While it works the data grows in `.NAME.partial` beside the directory, which appears under its
// name when it is whole; one that holds anything but a data set is never replaced. Ended early, by
// a kill too, the same call goes on where it was; the result is the same. What cannot be gone on
// with, because files, tokenizer or options are not the same, is begun again. A file that is at
// fault, and keep_partial = false, leave nothing.
//
// Throws a kUsage Error for the options, a kInput Error for the files (missing, empty, changed
// while they were read; no token for a character; a special token where none may be) and for a
// tokenizer that cannot be opened, a kRuntime Error where `out` cannot be written.
DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareHooks& hooks = {});

}  // namespace folio
