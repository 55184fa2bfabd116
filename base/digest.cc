#include "base/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include "base/failure.h"

namespace babelring {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace

struct Sha256::Context {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> md{EVP_MD_CTX_new()};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (!context_->md || EVP_DigestInit_ex(context_->md.get(), EVP_sha256(), nullptr) != 1) {
    fail("sha256: OpenSSL could not start a digest");
  }
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::add(const void* data, std::size_t bytes) {
  if (!context_) fail("sha256: bytes added after hex()");
  if (bytes > 0 && EVP_DigestUpdate(context_->md.get(), data, bytes) != 1)
    fail("sha256: OpenSSL refused {} bytes", bytes);
  return *this;
}

std::string Sha256::hex() {
  if (!context_) fail("sha256: hex() called twice");
  std::array<unsigned char, 32> raw{};
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(context_->md.get(), raw.data(), &length) != 1 || length != raw.size()) {
    fail("sha256: OpenSSL could not finish a digest");
  }
  context_.reset();
  return hex_of(raw);
}

std::string sha256_hex(std::string_view text) {
  return Sha256().add(text).hex();
}

std::string hmac_sha256_hex(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> raw{};
  unsigned int length = 0;
  const std::vector<unsigned char> bytes(text.begin(), text.end());
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(), bytes.size(), raw.data(), &length) ==
          nullptr ||
      length != raw.size()) {
    fail("hmac: OpenSSL could not sign {} bytes", text.size());
  }
  return hex_of(raw);
}

std::string sha256_file(const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, CloseFile> stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail("sha256: cannot open {}: {}", file.string(), std::generic_category().message(errno));
  std::vector<char> block(std::size_t{1} << 18);
  Sha256 digest;
  std::size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), stream.get())) > 0) digest.add(block.data(), got);
  if (std::ferror(stream.get()) != 0) {
    fail("sha256: cannot read {}: {}", file.string(), std::generic_category().message(errno));
  }
  return digest.hex();
}

}  // namespace babelring
