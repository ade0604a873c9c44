#include "folio/io/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "folio/base/error.h"

namespace folio {
namespace {

void Require(bool done) {
  if (!done) throw RuntimeError("cannot compute SHA-256", "OpenSSL's libcrypto refuses to");
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  Require(state_->context != nullptr &&
          EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) {
  Require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

}  // namespace folio
