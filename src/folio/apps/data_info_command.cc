#include <string>

#include "folio/apps/commands.h"
#include "folio/apps/describe_dataset.h"
#include "folio/data/dataset.h"

namespace folio {
namespace {

class DataInfoCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data info",
            .summary = "describe a prepared data directory",
            .group = "data",
            .examples = {"folio data info data/shakespeare",
                         "folio data info --json data/shakespeare"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"DIR", &dir_, "directory that folio data prepare wrote"},
                     {.required = true});
  }

  int Run(const Context& context) override {
    const Dataset data(dir_);
    context.console.Result(DescribeDataset(dir_, data.info(), context.console.json()));
    return 0;
  }

 private:
  std::string dir_;
};

}  // namespace

std::unique_ptr<Command> NewDataInfoCommand() {
  return std::make_unique<DataInfoCommand>();
}

}  // namespace folio
