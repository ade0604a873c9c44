#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "folio/c/test_api.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::vector<float> LogitsOf(const folio_model* model, const Ids& ids) {
  const auto logits = NewBuffer();
  Do([&](folio_error** e) {
    return folio_logits(model, ids.data(), ids.size(), 0, nullptr, logits.get(), e);
  });
  return Numbers<float>(logits);
}

// Files are read in pieces of any size.
int GiveBytes(void* user, uint64_t offset, void* bytes, size_t count) {
  const std::string& all = *static_cast<const std::string*>(user);
  if (offset + count > all.size()) return 1;
  std::memcpy(bytes, all.data() + offset, count);
  return 0;
}

TEST_F(CApi, OpensWhatIsInMemory) {
  const auto fp32 = Options("open", {{"dtype", "fp32"}});
  const Handle<folio_model> saved = Open(At("run"), fp32.get());
  Do([&](folio_error** e) {
    return folio_model_save(saved.get(), At("model.gguf").string().c_str(), "gguf", "fp32", e);
  });
  const Ids ids = Prompt("line 3");
  Handle<folio_model> of_directory, of_file;
  {
    const Handle<folio_files> files(folio_files_new());
    for (const auto& entry : std::filesystem::directory_iterator(At("run") / "best")) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = ReadFile(entry.path()), name = entry.path().filename().string();
      Do([&](folio_error** e) {
        return folio_files_add(files.get(), name.c_str(), bytes.data(), bytes.size(), e);
      });
    }
    std::string gguf = ReadFile(At("model.gguf"));
    Do([&](folio_error** e) {
      return folio_files_read(files.get(), "model.gguf", gguf.size(), GiveBytes, &gguf, e);
    });
    const std::string path = folio_files_path(files.get());
    of_directory = Open(path, fp32.get());
    of_file = Open(path + "/model.gguf", fp32.get());

    // Errors name the file, as for files on disk.
    EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                               [&](folio_error** e) {
                                 return folio_files_add(files.get(), "model.gguf", "x", 1, e);
                               }),
                         "already"));
    EXPECT_TRUE(Contains(
        Fails(FOLIO_USAGE,
              [&](folio_error** e) { return folio_files_add(files.get(), "../x", "x", 1, e); }),
        "slashes"));
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_files_read(files.get(), "long", gguf.size() + 1,
                                                         GiveBytes, &gguf, e);
                               }),
                         "reader"));
    gguf.resize(gguf.size() / 2);
    Do([&](folio_error** e) {
      return folio_files_add(files.get(), "half.gguf", gguf.data(), gguf.size(), e);
    });
    folio_model* none = nullptr;
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_model_open((path + "/half.gguf").c_str(), nullptr,
                                                         nullptr, &none, e);
                               }),
                         "half.gguf"));
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_model_open((path + "/nothing").c_str(), nullptr,
                                                         nullptr, &none, e);
                               }),
                         "nothing"));
  }
  // The files are freed, and the models still work.
  EXPECT_EQ(LogitsOf(of_directory.get(), ids), LogitsOf(saved.get(), ids));
  EXPECT_EQ(LogitsOf(of_file.get(), ids), LogitsOf(saved.get(), ids));
}

TEST_F(CApi, TensorsLieWhereTheyAre) {
  const Handle<folio_model> model = Open(At("run"), Options("open", {{"dtype", "fp32"}}).get());
  auto wte = Sized<folio_tensor>();
  Do([&](folio_error** e) {
    return folio_model_tensor(model.get(), "transformer.wte.weight", &wte, e);
  });
  ASSERT_EQ(wte.rank, 2);
  EXPECT_STREQ(wte.dtype, "F32");
  EXPECT_EQ(wte.shape[0], folio_model_vocab_size(model.get()));
  EXPECT_EQ(wte.shape[1], folio_model_width(model.get()));
  EXPECT_EQ(wte.bytes, static_cast<uint64_t>(4 * wte.shape[0] * wte.shape[1]));
  // The embedded token is its row, and that of its position.
  auto wpe = Sized<folio_tensor>();
  Do([&](folio_error** e) {
    return folio_model_tensor(model.get(), "transformer.wpe.weight", &wpe, e);
  });
  const Ids ids = {3};
  const auto rows = NewBuffer();
  Do([&](folio_error** e) {
    return folio_trace(model.get(), ids.data(), 1, "embedded", 0, rows.get(), e);
  });
  const auto row = Numbers<float>(rows);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(row[i], static_cast<const float*>(wte.data)[3 * row.size() + i] +
                          static_cast<const float*>(wpe.data)[i]);
  }
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_trace(model.get(), ids.data(), 1, "x", 0, rows.get(),
                                                  e);
                             }),
                       "embedded, ln_1"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_trace(model.get(), ids.data(), 1, "mlp", 99, rows.get(),
                                                  e);
                             }),
                       "layer 99"));
  wte.size = 8;
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_model_tensor(model.get(), "transformer.wte.weight",
                                                         &wte, e);
                             }),
                       "sizeof(folio_tensor)"));
}

}  // namespace
}  // namespace folio
