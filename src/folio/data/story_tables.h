#pragma once

#include <span>
#include <string_view>

// What stories are told from. Templates: {x} is a part that the cast of the story plays, [a|b|c]
// one of the alternatives, `a~` the article that fits the next word. See stories.cc.
namespace folio::internal {

struct Named {
  std::string_view name;
  bool she;
};
struct AnimalNamed {
  std::string_view name;
  bool she;
  std::string_view kind;
};
struct Place {
  std::string_view at;
  std::string_view place;
};
struct Pet {
  std::string_view noun;
  std::string_view cried;
  std::string_view food;
};
struct Skill {
  std::string_view base;
  std::string_view gerund;
  std::string_view failed;
  std::string_view did;
};
struct Fear {
  std::string_view of;
  std::string_view scene;
  std::string_view truth;
  std::string_view end;
};
struct Gift {
  std::string_view gift;
  std::string_view made_of;
  std::string_view use;
};
struct Plant {
  std::string_view plant;
  std::string_view grew;
  std::string_view end;
};
struct Noise {
  std::string_view noise;
  std::string_view source;
};
struct Goods {
  std::string_view box;
  std::string_view inside;
};

// Each line of a plot is a template; one that begins with '?' is told half the time, and "/" begins
// a new line of text.
using Plot = std::span<const std::string_view>;

std::span<const Plot> Plots();
std::span<const Named> Children();
std::span<const AnimalNamed> Animals();
std::span<const Place> Places();
std::span<const Pet> Pets();
std::span<const Skill> Skills();
std::span<const Fear> Fears();
std::span<const Gift> Gifts();
std::span<const Plant> Plants();
std::span<const Noise> Noises();
std::span<const Goods> FoundGoods();
std::span<const std::string_view> Things();
std::span<const std::string_view> LightThings();
std::span<const std::string_view> FragileThings();
std::span<const std::string_view> Colours();
std::span<const std::string_view> Spots();
std::span<const std::string_view> Countables();
std::span<const std::string_view> Traits();
std::span<const std::string_view> Weathers();
std::span<const std::string_view> Foods();
std::span<const std::string_view> Snacks();
std::span<const std::string_view> Owners();
std::span<const std::string_view> Numbers();  // "zero" to "ten"

}  // namespace folio::internal
