#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/lesson/topics.h"

namespace folio {

// A LessonPart is a part of the input that a lesson may take.
enum LessonPart : unsigned {
  kLessonModel = 1,
  kLessonText = 2,
  kLessonLayer = 4,
  kLessonHead = 8,
  kLessonForm = 16,  // of attention, and where its random weights come from
  kLessonValues = 32,
  kLessonSampling = 64,
  kLessonPositions = 128,
  kLessonTokenizer = 256,
};

// LessonInput holds the input of a lesson; the parts that it does not take stay as they are.
struct LessonInput {
  Backend& backend;
  const OpenedModel* model = nullptr;    // null for numbers of its own, or for `values`
  const Tokenizer* tokenizer = nullptr;  // for a text without a model
  std::string text = {};
  std::vector<float> values = {};
  AttentionTopic attention = {};
  SamplingOptions sampling = {};
  std::optional<int64_t> layer = {}, head = {}, positions = {}, channels = {};
};

// A walk by name, as `folio explain NAME` takes it.
struct Lesson {
  std::string name, summary, details;
  std::vector<std::string> examples;  // command lines
  unsigned parts = 0;                 // LessonParts that it takes
  std::string values = {};            // numbers with commas between them, where none are given
  std::string text = {};              // where none is given
  bool model_required = false;
  // Throws as the walks of topics.h.
  Report (*walk)(const LessonInput& input) = nullptr;
};
const std::vector<Lesson>& Lessons();

}  // namespace folio
