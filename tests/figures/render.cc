#include "tests/figures/render.h"

#include <fmt/format.h>
#include <png.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace folio {
namespace {

// Deleted with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    path_ = std::filesystem::temp_directory_path() / "folio-figure-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Picture ReadPng(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  Picture picture;
  bool read = png_image_begin_read_from_file(&image, path.c_str()) != 0;
  if (read) {
    image.format = PNG_FORMAT_RGB;
    picture.width = image.width;
    picture.height = image.height;
    picture.pixels.resize(PNG_IMAGE_SIZE(image));
    read = png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) != 0;
  }
  const std::string message = image.message;
  png_image_free(&image);
  if (!read) throw std::runtime_error(path + ": " + message);
  return picture;
}

}  // namespace

const uint8_t* Picture::At(int64_t x, int64_t y) const {
  if (x < 0 || y < 0 || x >= width || y >= height) throw std::out_of_range("outside of a picture");
  return pixels.data() + 3 * (y * width + x);
}

uint32_t Picture::Colour(int64_t x, int64_t y) const {
  const uint8_t* rgb = At(x, y);
  return static_cast<uint32_t>(rgb[0] << 16 | rgb[1] << 8 | rgb[2]);
}

std::string WhyNoRenderer() {
#if defined(FOLIO_SANITIZE)
  return "figures are looked at in the build without sanitizers: rsvg-convert is not under test";
#else
  static const bool found = std::system("rsvg-convert --version >/dev/null 2>&1") == 0;
  return found ? "" : "rsvg-convert is not installed (Debian: librsvg2-bin)";
#endif
}

Picture Render(std::string_view svg, double zoom) {
  const ScratchDirectory scratch;
  const std::string input = scratch.path() + "/figure.svg", output = scratch.path() + "/figure.png";
  std::ofstream(input, std::ios::binary) << svg;
  const std::string command = fmt::format(
      "rsvg-convert --background-color=white --zoom={} '{}' -o '{}'", zoom, input, output);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("rsvg-convert failed");
  return ReadPng(output);
}

std::string InDarkMode(std::string_view svg) {
  static constexpr std::string_view kQuery = "@media (prefers-color-scheme:dark){";
  std::string result(svg);
  const size_t begin = result.find(kQuery);
  if (begin == std::string::npos) throw std::runtime_error("the figure has no dark mode");
  size_t end = begin + kQuery.size();
  for (int open = 1; open > 0; ++end) {
    if (end == result.size()) throw std::runtime_error("a media query does not end");
    open += result[end] == '{' ? 1 : result[end] == '}' ? -1 : 0;
  }
  result.erase(end - 1, 1);
  return result.erase(begin, kQuery.size());
}

}  // namespace folio
