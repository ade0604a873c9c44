#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/explain/explain_input.h"
#include "folio/io/file.h"
#include "folio/lesson/render.h"
#include "folio/lesson/select_steps.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class ExplainCommand final : public Command {
 public:
  explicit ExplainCommand(const ExplainTopic& topic) : topic_(topic) {}

  CommandInfo info() const override {
    return {.name = "explain " + topic_.name,
            .summary = topic_.summary,
            .group = "explain",
            .details = topic_.details,
            .examples = topic_.examples};
  }

  void AddFlags(Flags& flags) override {
    input_.Add(flags, topic_);
    if ((topic_.flags & kExplainModel) == 0) {
      flags.Value(
          Field{"backend", &input_.model.backend, "what computes"}.Choices({"cpu", "reference"}));
    }
    flags.Group("output");
    flags.List("--step", &steps_, "show only this step; its name with - for spaces",
               {.placeholder = "NAME"});
    flags.Value(Field{"svg", &svg_, "write the figures into this directory"},
                {.placeholder = "DIR"});
    flags.Value(Field{"html", &html_, "write a page with all of it; - for standard output"},
                {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    Console& console = context.console;
    RefuseTogether(html_ == "-" && console.json(), "--html -", "--json");
    input_.Check(topic_);
    CheckOutputs();
    const Walk walk = SelectSteps(topic_.walk(input_), steps_);
    // Before stdout: its reader may go away.
    if (!svg_.empty()) WriteFigures(walk, console);
    if (html_ == "-") {
      console.Result(WalkHtml(walk));
      return 0;
    }
    if (!html_.empty()) {
      CreateParentOf(html_);
      WriteFileAtomically(html_, WalkHtml(walk));
      console.Note(fmt::format("wrote {}", html_));
    }
    const Terminal& out = console.out();
    console.Result(
        console.json()
            ? WalkJson(walk)
            : WalkText(walk, {.colour = out.color, .utf8 = out.utf8, .width = out.width}));
    return 0;
  }

 private:
  void CheckOutputs() const {
    std::error_code ignored;
    CheckFigureDirectory(svg_);
    if (!html_.empty() && fs::is_directory(html_, ignored)) {
      throw UsageError(fmt::format("--html {}: is a directory", html_), {}, "name a file");
    }
  }

  void WriteFigures(const Walk& walk, Console& console) const {
    const auto figures = WalkFigures(walk);
    CreateDirectories(svg_);
    for (const auto& [name, svg] : figures) WriteFileAtomically(fs::path(svg_) / name, svg);
    console.Note(fmt::format("wrote {} {} to {}", figures.size(),
                             figures.size() == 1 ? "figure" : "figures", svg_));
  }

  const ExplainTopic& topic_;
  ExplainInput input_;
  std::string svg_, html_;
  std::vector<std::string> steps_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> NewExplainCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const ExplainTopic& topic : ExplainTopics()) {
    commands.push_back(std::make_unique<ExplainCommand>(topic));
  }
  return commands;
}

}  // namespace folio
