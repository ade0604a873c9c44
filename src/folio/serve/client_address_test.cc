#include "folio/serve/client_address.h"

#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(AddressBlocks, HaveTheAddressesThatBeginAlike) {
  const auto has = [](const char* block, const char* address) {
    return AddressBlock(block, "--flag").Has(address);
  };
  EXPECT_TRUE(has("127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(has("127.0.0.1", "::ffff:127.0.0.1"));
  EXPECT_FALSE(has("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(has("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(has("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(has("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(has("0.0.0.0/0", "::1"));
  EXPECT_TRUE(has("::1", "::1"));
  EXPECT_TRUE(has("fd00::/8", "fdff::1"));
  EXPECT_FALSE(has("fd00::/8", "fe00::1"));
  EXPECT_TRUE(has("::/0", "1.2.3.4"));
  for (const char* none : {"", "localhost", "1.2.3", "1.2.3.4:80", "unknown"}) {
    EXPECT_FALSE(has("::/0", none)) << none;
  }
}

TEST(AddressBlocks, NothingElseIsOne) {
  for (const char* bad : {"", "/8", "localhost", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1",
                          "10.0.0.0/8x", "10.0.0.0/8/8", "::1/129", "10.0.0", "1.2.3.4 "}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { AddressBlock(bad, "--flag"); }, ErrorKind::kUsage),
                         "--flag: '" + std::string(bad) + "'"));
  }
}

TEST(ClientAddresses, AreTheLastThatNoProxyHas) {
  const std::vector<AddressBlock> proxies = {AddressBlock("127.0.0.1", ""),
                                             AddressBlock("10.0.0.0/8", "")};
  const auto client = [&](const char* peer, const char* forwarded) {
    return ClientAddress(proxies, peer, forwarded);
  };
  EXPECT_EQ(client("127.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("::ffff:127.0.0.1", "192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "192.0.2.1, 10.1.1.1 ,\t10.2.2.2"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "2001:db8::7"), "2001:db8::7");
  // An address that a client gives itself stands before the one that a proxy gives it.
  EXPECT_EQ(client("127.0.0.1", "198.51.100.9, 192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("127.0.0.1", "127.0.0.1, 192.0.2.1"), "192.0.2.1");
  // Nothing is believed of a peer that is no proxy.
  EXPECT_EQ(client("192.0.2.5", "198.51.100.9"), "192.0.2.5");
  EXPECT_EQ(client("127.0.0.1", ""), "127.0.0.1");
  for (const char* none : {"unknown", "198.51.100.9, ", "_hidden", "192.0.2.1 10.1.1.1", ",",
                           "198.51.100.9,evil\n", "192.0.2.1:80"}) {
    EXPECT_EQ(client("127.0.0.1", none), "127.0.0.1") << none;
  }
  EXPECT_EQ(client("127.0.0.1", "10.3.3.3, 10.1.1.1"), "10.3.3.3") << "a proxy that asks itself";
  EXPECT_EQ(ClientAddress({}, "127.0.0.1", "192.0.2.1"), "127.0.0.1");
}

TEST(ClientAddresses, OfOneNetworkAreOneClient) {
  EXPECT_EQ(NetworkOf("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(NetworkOf("2001:db8:1:2::9"), "2001:db8:1:2::");
  EXPECT_NE(NetworkOf("2001:db8:1:3::9"), "2001:db8:1:2::");
  EXPECT_EQ(NetworkOf("me"), "me");
}

}  // namespace
}  // namespace folio
