#include "folio/plot/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <vector>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::vector<uint8_t> Decode(const std::string& file, int64_t* width, int64_t* height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, file.data(), file.size()), 0) << image.message;
  EXPECT_EQ(image.format & (PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA), 0U);
  image.format = PNG_FORMAT_GRAY;
  *width = image.width;
  *height = image.height;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  return pixels;
}

TEST(GreyPng, HoldsTheSamePixels) {
  for (const auto& [width, height] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {1, 100}, {257, 2}}) {
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < width * height; ++i) pixels.push_back(static_cast<uint8_t>(i * 37));
    const std::string file = GreyPng(pixels, width, height);
    int64_t read_width = 0, read_height = 0;
    EXPECT_EQ(Decode(file, &read_width, &read_height), pixels);
    EXPECT_EQ(read_width, width);
    EXPECT_EQ(read_height, height);
    EXPECT_EQ(GreyPng(pixels, width, height), file);
  }
}

TEST(GreyPng, IsCompressed) {
  EXPECT_LT(GreyPng(std::vector<uint8_t>(1000 * 1000, 9), 1000, 1000).size(), 5000U);
}

TEST(GreyPng, WhatLibpngRefusesIsAnError) {
  EXPECT_THROW(GreyPng({}, 0, 0), Error);
  EXPECT_THROW(GreyPng({}, int64_t{1} << 40, 0), Error);
  const std::vector<uint8_t> wide(2000000);  // beyond libpng's limit of a million
  const Error error = Refused([&] { GreyPng(wide, 2000000, 1); }, ErrorKind::kRuntime);
  EXPECT_TRUE(Contains(error.what(), "2000000 x 1"));
  EXPECT_NE(error.cause(), "");
}

TEST(GreyPng, TooFewPixelsAreRefused) {
  EXPECT_DEATH(GreyPng(std::vector<uint8_t>(5), 2, 3), "do not fill");
}

}  // namespace
}  // namespace folio
