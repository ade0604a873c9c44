#include <cstdint>
#include <iterator>
#include <string>

#include "bodies.h"
#include "changes.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/dataset.h"
#include "input.h"
#include "scratch.h"

namespace folio {
testing::AssertionResult TextIsReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  // Each kind of file has a beginning here, so that few inputs end at the recognition.
  constexpr std::string_view kBegins[] = {"",
                                          "\x1F\x8B\x08",
                                          "BZh91AY&SY",
                                          std::string_view("\xFD\x37zXZ\0", 6),
                                          "\x28\xB5\x2F\xFD",
                                          "\xFF\xFE",
                                          "\xFE\xFF",
                                          "[{\"text\":",
                                          "[\"",
                                          "{\"text\":\"",
                                          "{\n\"text\":"};
  const std::string text = std::string(kBegins[kind % std::size(kBegins)]).append(input.Rest());
  const std::string path = TheScratch().Write(kind < 128 ? "t" : "t.jsonl", text);
  return ReadOrRefused([&] {
    TextStream stream(path, {});
    stream.begins_with_document();
    std::string out;
    while (stream.Read(out, 100) > 0 && out.size() < (size_t{1} << 24)) continue;
  });
}

testing::AssertionResult TokensAreReadOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  const std::string header =
      TokenHeader(input.Byte(), input.Byte() % 2 == 0 ? TokenWidth::k16 : TokenWidth::k32);
  const bool train_header = input.Byte() % 2 == 0, val_header = input.Byte() % 4 == 0;
  const std::string_view val = input.Take(input.Byte());
  TheScratch().Write("train.bin", std::string(train_header ? header : "").append(input.Rest()));
  TheScratch().Write("val.bin", std::string(val_header ? header : "").append(val));
  return ReadOrRefused([&] {
    const Dataset data(TheScratch().dir());
    data.train().Validate(0);
    data.val().Validate(0);
  });
}

}  // namespace folio
