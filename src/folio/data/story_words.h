#pragma once

#include <array>
#include <span>
#include <string_view>

// The words of the stories. Templates: {x} is a part of the story's cast, [a|b|c] one of the
// alternatives, `a~` the article that fits the next word. See stories.cc.
namespace folio::internal {

// A question about one line of text of a plot, counted from 0.
struct Question {
  size_t line;
  std::string_view question, answer;  // templates
};

// Each of `lines` is a template; one that begins with '?' is used half the time, and "/" begins a
// new line of text.
struct Plot {
  std::span<const std::string_view> lines;
  std::span<const Question> questions;
};

std::span<const Plot> Plots();

struct Named {
  std::string_view name;
  bool she;
  std::string_view kind = {};  // kind of animal
};

// Values of parts that belong together.
template <size_t N>
using Row = std::array<std::string_view, N>;

inline constexpr Named kChildren[] = {
    {"Lily", true},   {"Mia", true},   {"Anna", true},  {"Sara", true},  {"Emma", true},
    {"Rosie", true},  {"Zoe", true},   {"Nora", true},  {"Lucy", true},  {"Ivy", true},
    {"Ella", true},   {"Ruby", true},  {"Tom", false},  {"Ben", false},  {"Max", false},
    {"Sam", false},   {"Leo", false},  {"Jack", false}, {"Finn", false}, {"Noah", false},
    {"Oscar", false}, {"Adam", false}, {"Theo", false}, {"Eli", false},
};

inline constexpr Named kAnimals[] = {
    {"Pip", false, "rabbit"},     {"Dot", true, "mouse"},      {"Bruno", false, "bear"},
    {"Pearl", true, "duck"},      {"Hops", false, "frog"},     {"Olga", true, "owl"},
    {"Rusty", false, "fox"},      {"Hazel", true, "squirrel"}, {"Shelly", true, "turtle"},
    {"Spike", false, "hedgehog"},
};

inline constexpr Row<2> kPlaces[] = {
    {"at the park", "the park"},     {"in the garden", "the garden"},
    {"in the forest", "the forest"}, {"by the river", "the river"},
    {"on the hill", "the hill"},     {"in the field", "the field"},
    {"by the lake", "the lake"},     {"on the farm", "the farm"},
    {"in the meadow", "the meadow"}, {"by the old mill", "the old mill"},
};

inline constexpr Row<3> kPets[] = {
    {"kitten", "meowed", "warm milk"},  {"puppy", "whined", "a small bone"},
    {"bird", "chirped", "some seeds"},  {"duckling", "quacked", "some bread crumbs"},
    {"lamb", "bleated", "fresh grass"}, {"mouse", "squeaked", "a piece of cheese"},
};

inline constexpr Row<4> kSkills[] = {
    {"swim", "swimming", "swallowed some water and coughed", "swam all the way across the lake"},
    {"ride a bike", "riding a bike", "fell into a bush", "rode the bike all the way down the road"},
    {"skate", "skating", "slipped and sat down hard", "skated in a big circle"},
    {"whistle", "whistling", "only blew air", "whistled a whole song"},
    {"juggle", "juggling", "dropped all the balls", "juggled with three balls"},
    {"bake bread", "baking bread", "burned the bread", "baked a soft, warm loaf"},
    {"play the drum", "playing the drum", "lost the beat", "played a whole song on the drum"},
    {"jump rope", "jumping rope", "tripped over the rope", "jumped ten times without a stop"},
    {"fly a kite", "flying a kite", "watched the kite crash into the grass",
     "made the kite fly higher than the trees"},
    {"row a boat", "rowing a boat", "went around and around in a circle",
     "rowed straight to the other side of the lake"},
};

inline constexpr Row<4> kFears[] = {
    {"the dark", "[One night|One evening], the lamp in {his} room went out.",
     "The dark is only the day with its eyes closed",
     "That night, {H} [slept without a lamp|counted the stars and fell asleep]."},
    {"thunder", "[One night|One evening], loud thunder shook the windows.",
     "Thunder is only a cloud that claps its hands",
     "When the thunder came again, {H} [clapped back|laughed and clapped]."},
    {"deep water",
     "One hot day, all the children jumped into the lake, but {H} stayed on the sand.",
     "The water will hold you up if you let it",
     "Soon {H} was [splashing|playing] in the deep water with all the others."},
    {"big dogs", "[One day|One morning], a big dog came running up to {him}.",
     "When a dog wags its tail, it wants to be your friend",
     "{H} held out {his} hand, and the dog [licked it|sat down and gave {him} a paw]."},
    {"high places",
     "[One day|One morning], everyone climbed the old tower, but {H} stayed at the bottom.",
     "Look at the sky and not at the ground, and take one step at a time",
     "Step by step, {H} climbed to the top and [saw the whole village|waved to everyone below]."},
    {"spiders", "[One day|One evening], {H} saw a spider on {his} pillow.",
     "The spider is small and you are big, so it is more afraid than you are",
     "{H} carried the spider to the garden in a cup and [said goodbye|let it go]."},
};

inline constexpr Row<3> kGifts[] = {
    {"card", "paper and paint", "put it on the wall"},
    {"necklace", "shells and string", "wore it all day"},
    {"crown", "leaves and flowers", "wore it to bed"},
    {"bird house", "old wood and nails", "hung it in the apple tree"},
    {"puppet", "an old sock and two buttons", "made it dance and sing"},
    {"picture book", "paper and string", "read it three times"},
    {"honey cake", "flour, eggs, and honey", "shared it with everyone"},
    {"little boat", "wood and a piece of cloth", "sailed it on the pond"},
};

inline constexpr Row<3> kPlants[] = {
    {"sunflower", "taller than the fence", "The birds came to eat the seeds."},
    {"pumpkin", "bigger than a chair", "They made a big pot of pumpkin soup."},
    {"bean", "all the way up to the roof", "They picked a full basket of beans."},
    {"tomato", "round and red", "They ate tomatoes every day that week."},
    {"rose", "redder than the evening sky", "The whole garden smelled sweet."},
    {"melon", "so heavy that nobody could lift it", "They cut it and gave a piece to everyone."},
};

inline constexpr Row<2> kNoises[] = {
    {"tap, tap, tap", "a branch that touched the window in the wind"},
    {"scratch, scratch", "a little mouse that was making a nest"},
    {"hoo, hoo", "an owl that sat on the roof"},
    {"drip, drip, drip", "an old pipe above the kitchen sink"},
    {"bump, bump", "the cat that was chasing a ball down the stairs"},
    {"creak, creak", "the garden gate that nobody had closed"},
};

inline constexpr Row<2> kFoundGoods[] = {
    {"box", "old letters"},    {"bag", "silver coins"}, {"basket", "warm bread"},
    {"purse", "golden rings"}, {"box", "tiny tools"},
};

inline constexpr std::string_view kThings[] = {"ball", "book",     "doll",    "drum",
                                               "bell", "umbrella", "whistle", "puzzle",
                                               "boat", "car",      "train",   "ring"};
inline constexpr std::string_view kLightThings[] = {"kite",  "ball",    "hat",
                                                    "scarf", "balloon", "paper plane"};
inline constexpr std::string_view kFragileThings[] = {"cup",  "plate", "bowl",
                                                      "lamp", "vase",  "clock"};
inline constexpr std::string_view kColours[] = {"red",    "blue",  "green", "yellow", "orange",
                                                "purple", "white", "pink",  "black"};
inline constexpr std::string_view kSpots[] = {
    "under a bush",       "behind a tree",    "in the tall grass",
    "behind a big rock",  "under an old log", "next to the fence",
    "between two stones", "under a bench",    "in a small hole"};
inline constexpr std::string_view kCountables[] = {"apples",  "shells",  "berries", "cookies",
                                                   "flowers", "nuts",    "stones",  "plums",
                                                   "eggs",    "stickers"};
inline constexpr std::string_view kTraits[] = {"kind",     "brave",  "curious", "happy", "quiet",
                                               "cheerful", "gentle", "clever",  "honest"};
inline constexpr std::string_view kWeathers[] = {"sunny", "warm", "bright",
                                                 "windy", "cool", "lovely"};
inline constexpr std::string_view kFoods[] = {"soup",     "apple pie", "bread with honey",
                                              "pancakes", "cookies",   "hot chocolate"};
inline constexpr std::string_view kSnacks[] = {"apple pie", "bread with honey", "pancakes",
                                               "sandwiches", "cookies"};
inline constexpr std::string_view kOwners[] = {"baker",         "farmer",  "teacher",
                                               "old fisherman", "painter", "old neighbor"};
inline constexpr std::string_view kNumbers[] = {"zero", "one",   "two",   "three", "four", "five",
                                                "six",  "seven", "eight", "nine",  "ten"};

}  // namespace folio::internal
