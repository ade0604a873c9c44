#include "folio/serve/access_keys.h"

#include <unistd.h>

#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

class KeyFiles : public InTemporaryDirectory {};

// SHA-256 of "abc", as FIPS 180-4 has it.
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_F(KeyFiles, HaveAKeyALine) {
  WriteFileAtomically(At("keys"), "# ours\n\n  \nfirst key \r\nteam-1:another\nhashed:sha256:" +
                                      std::string(kOfAbc) + "\nsha256:" + Sha256Hex("bare"));
  chmod(At("keys").c_str(), 0600);
  const AccessKeys keys = ReadKeys(At("keys").string());
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(NameOfKey(keys, "first key"), "key-4") << "by its line";
  EXPECT_EQ(NameOfKey(keys, "another"), "team-1");
  EXPECT_EQ(NameOfKey(keys, "abc"), "hashed");
  EXPECT_EQ(NameOfKey(keys, "bare"), "key-7");
  for (const std::string& none :
       {std::string(), std::string("team-1:another"), std::string("team-1"), std::string("anothe"),
        std::string("anotherr"), std::string(kOfAbc), "sha256:" + std::string(kOfAbc)}) {
    EXPECT_EQ(NameOfKey(keys, none), std::nullopt) << none;
  }
  for (const AccessKey& key : keys) EXPECT_FALSE(Contains(key.sha256, "another"));
}

TEST_F(KeyFiles, BadLinesAreToldByTheirNumber) {
  const auto error = [](const std::string& text) {
    return ErrorOf([&] { ParseKeys(text, "keys"); });
  };
  EXPECT_TRUE(Contains(error("# nothing\n"), "keys: no key"));
  for (const char* bad : {"a name:secret", ":secret", "name:", "name:sec:ret", "name:sha256:12",
                          "sha256:", "n\xC3\xA9:secret", "name\x1b:secret"}) {
    const std::string told = error("good\n" + std::string(bad));
    EXPECT_TRUE(Contains(told, "keys, line 2")) << bad;
    EXPECT_EQ(told.find("sec"), told.npos) << "a key is not shown: " << told;
  }
  EXPECT_TRUE(Contains(error("name:sha256:" + std::string(64, 'x')), "64 hexadecimal digits"));
}

TEST_F(KeyFiles, ThatOthersCanReadAreWarnedOf) {
  WriteFileAtomically(At("keys"), "secret");
  const auto warned = [&](mode_t mode) {
    chmod(At("keys").c_str(), mode);
    Warnings warnings;
    ReadKeys(At("keys").string());
    return warnings.text();
  };
  EXPECT_EQ(warned(0600), "");
  EXPECT_TRUE(Contains(warned(0604), "others than its owner", "chmod 600"));
  EXPECT_EQ(warned(0602), "");
  if (chown(At("keys").c_str(), static_cast<uid_t>(-1), 1) != 0) {
    GTEST_SKIP() << "files of other groups are made by root alone";
  }
  EXPECT_TRUE(Contains(warned(0640), "others than its owner"));
}

}  // namespace
}  // namespace folio
