#include <fmt/format.h>

#include <string>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/data/dataset.h"

namespace folio {
namespace {

class DataInfoCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data info",
        .summary = "describe a prepared data directory",
        .group = "data",
        .examples = {"folio data info data/shakespeare", "folio data info --json data/shakespeare",
                     "folio data info --verify data/shakespeare"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"DIR", &dir_, "directory that folio data prepare wrote"},
                     {.required = true});
    flags.Switch("--verify", &verify_, "read all tokens and compare their hashes");
  }

  int Run(const Context& context) override {
    const Dataset data(dir_);
    if (verify_ && !data.Verify()) {
      throw InputError(fmt::format("{}: nothing to verify by", dir_),
                       "the data came without hashes", "prepare it again with this folio");
    }
    if (verify_) context.console.Note("all tokens are those that were prepared");
    if (const std::string note = data.BareNote(); !note.empty()) context.console.Note(note);
    context.console.Result(DescribeDataset(dir_, data.info(), context.console.json()));
    return 0;
  }

 private:
  std::string dir_;
  bool verify_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDataInfoCommand() {
  return std::make_unique<DataInfoCommand>();
}

}  // namespace folio
