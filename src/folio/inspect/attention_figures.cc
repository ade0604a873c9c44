// The figures of `folio inspect attention`.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/inspect/attention.h"
#include "folio/inspect/figures.h"

namespace folio {
namespace {

// Rows of a map among many; more cells than that are not seen.
constexpr int64_t kSmallMap = 96;

HeatmapOptions Options(const AttentionView& view) {
  return {.scale = view.scale, .per_row = view.per_row};
}

std::string HeadName(const AttentionHead& head) {
  return fmt::format("L{} H{}", head.layer, head.head);
}

// What the head does most, for a small map: the score it was sorted by, or its largest share.
std::string ShortCaption(const AttentionHead& head, const std::string& sort) {
  std::string name = sort;
  if (sort == "layer") {
    name = "first";
    for (const char* other : {"previous", "self", "duplicate", "induction"}) {
      if (ScoreNamed(head.scores, other) > ScoreNamed(head.scores, name)) name = other;
    }
  }
  return fmt::format("{} {:.2f}", name, ScoreNamed(head.scores, name));
}

std::string AsideText(const AttentionHead& head) {
  return fmt::format("first token's {:.0f} % set aside", 100 * head.aside);
}

void AddTokens(const AttentionText& text, const AttentionView& view, const TokenNames& names,
               Heatmap* map) {
  map->row_labels = names.Shown(text.text.ids);
  map->column_labels = map->row_labels;
  if (view.first_aside) map->column_labels.erase(map->column_labels.begin());
}

Heatmap SmallMap(const AttentionText& text, const AttentionHead& head, const AttentionView& view,
                 const TokenNames& names) {
  const int64_t step = PoolingStep(head.map, kSmallMap);
  Heatmap map = Pooled(head.map, step);
  if (head.step == 1 && step == 1) AddTokens(text, view, names, &map);
  map.title = HeadName(head);
  map.caption = ShortCaption(head, view.sort);
  if (view.first_aside) map.caption += fmt::format(", aside {:.0f} %", 100 * head.aside);
  return map;
}

std::string Sorting(const AttentionView& view) {
  return view.sort == "layer" ? "" : ", largest " + view.sort + " first";
}

std::string OneHeadSvg(const AttentionText& text, const AttentionHead& head,
                       const AttentionView& view, const TokenNames& names) {
  Heatmap map = head.map;
  map.title = fmt::format("Attention of layer {}, head {}", head.layer, head.head);
  for (const std::string& name : ScoreNames()) {
    map.caption += fmt::format("{}{} {:.2f}", map.caption.empty() ? "" : " · ", name,
                               ScoreNamed(head.scores, name));
  }
  if (view.first_aside) map.caption += " · " + AsideText(head);
  if (head.step == 1) {
    AddTokens(text, view, names, &map);
  } else {
    map.caption += fmt::format(" · each cell the largest of {0} x {0}", head.step);
  }
  return HeatmapSvg(map, Options(view));
}

}  // namespace

std::string AttentionSvg(const AttentionText& text, const AttentionView& view,
                         const TokenNames& names, int64_t columns) {
  const std::vector<size_t> order = SortedHeads(std::span(&text, 1), view);
  if (view.head) return OneHeadSvg(text, text.heads[order.front()], view, names);
  std::vector<Heatmap> maps;
  for (const size_t i : order) maps.push_back(SmallMap(text, text.heads[i], view, names));
  std::string title = view.layer ? fmt::format("Attention of layer {}", *view.layer)
                                 : "Attention of all heads, a row for each layer";
  if (!view.layer && view.sort != "layer") title = "Attention of all heads";
  title += fmt::format(": {} tokens{}", text.text.ids.size(), Sorting(view));
  return HeatmapGridSvg(maps, std::min(columns, static_cast<int64_t>(maps.size())), title,
                        Options(view));
}

std::string AttentionBatchSvg(std::span<const AttentionText> texts, const AttentionView& view,
                              const TokenNames& names) {
  const std::vector<size_t> order = SortedHeads(texts, view);
  std::vector<Heatmap> maps;
  for (size_t t = 0; t < texts.size(); ++t) {
    for (const size_t i : order) {
      Heatmap map = SmallMap(texts[t], texts[t].heads[i], view, names);
      map.title = fmt::format("text {} H{}", t + 1, texts[t].heads[i].head);
      maps.push_back(std::move(map));
    }
  }
  const std::string title = fmt::format("Attention of layer {}, a row for each of {} texts{}",
                                        view.layer.value_or(0), texts.size(), Sorting(view));
  return HeatmapGridSvg(maps, static_cast<int64_t>(order.size()), title, Options(view));
}

}  // namespace folio
