#include "folio/plot/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <limits>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {

std::string GreyPng(std::span<const uint8_t> pixels, int64_t width, int64_t height) {
  FOLIO_CHECK(width >= 0 && height >= 0 && (width == 0 || height <= INT64_MAX / width) &&
                  pixels.size() == static_cast<uint64_t>(width * height),
              "the pixels do not fill the picture");
  // libpng's simplified interface reports errors as a message, without longjmp.
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 4;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = PNG_FORMAT_GRAY;
  std::string file;
  png_alloc_size_t bytes = 0;
  bool written = false;
  if (width <= kMax && height <= kMax) {
    image.width = static_cast<png_uint_32>(width);
    image.height = static_cast<png_uint_32>(height);
    bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    file.resize(bytes);
    written = png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(),
                                        static_cast<png_int_32>(width), nullptr) != 0;
  }
  if (!written) {
    const std::string message = image.message;
    png_image_free(&image);
    throw RuntimeError(fmt::format("cannot make a picture of {} x {} pixels", width, height),
                       message.empty() ? "it is too large" : message);
  }
  file.resize(bytes);
  return file;
}

}  // namespace folio
