#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace babelring {

/// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& add(const void* data, std::size_t bytes);
  Sha256& add(std::string_view text) { return add(text.data(), text.size()); }

  /// The digest of all bytes added, as 64 lower-case hexadecimal digits. Call once, after the last add().
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of a string, as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view text);

/// HMAC-SHA-256 of a text (RFC 2104), as 64 lower-case hexadecimal digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view text);

/// SHA-256 of a file's content. Throws Failure (file, system error) if it cannot be read.
std::string sha256_file(const std::filesystem::path& file);

}  // namespace babelring
