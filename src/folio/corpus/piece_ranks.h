#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/corpus/pieces.h"
#include "folio/corpus/text_counter.h"
#include "folio/data/token_file.h"
#include "folio/dist/workers.h"

namespace folio {

// The work that a rank does on pieces.
enum class PieceWork : char { kCountCharacters = 'c', kCountBytes = 'b', kEncode = 'e' };

// The ranks that share the pieces of a data set, as the first of them sees it: who cuts the pieces,
// and takes what became of them in order. The others read the same files.
class PieceRanks {
 public:
  // `workers` must outlive it; null for one rank alone.
  explicit PieceRanks(Workers* workers) : workers_(workers) {}

  // The others open the sources; where one does not see what the first one does, none helps, and
  // the answer says who does not see what. "" if they do.
  std::string Open(std::span<const PrepareSource> sources, const TextOptions& options);
  // And get ready for kEncode, as PieceEncoder's constructor has it; the tokenizer with this hash
  // is saved in `dir`. The same answer.
  std::string OpenTokenizer(const std::filesystem::path& dir, const std::string& hash,
                            const PreparePlace& first, const std::string& special,
                            TokenWidth width);

  // The number of ranks that share the pieces.
  int size() const { return workers_ == nullptr ? 1 : workers_->ranks(); }
  // Hands the pieces of others out: of[r] are rank r's, and of[0] is not looked at.
  void Scatter(PieceWork work, const std::vector<std::span<const PreparePiece>>& of);
  // Calls each(answer) with what became of all of them, in order. Throws what the first failed
  // with.
  void Gather(const std::function<void(std::string_view answer)>& each);

 private:
  std::string Tell(const std::string& message);

  Workers* workers_;
};

// Serves the first rank on all others, until its Workers are gone.
void PrepareAsWorker(Group& group);

// FromAnswer reads the result of a piece as it travels.
void FromAnswer(std::string_view answer, std::vector<std::byte>& tokens);
void FromAnswer(std::string_view answer, TextCounts& counts);

}  // namespace folio
