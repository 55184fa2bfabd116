#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

namespace babelring::testing {

using OpenFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
inline OpenFile open_file(const std::filesystem::path& path, const char* mode) {
  OpenFile file(std::fopen(path.c_str(), mode), std::fclose);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return file;
}

/// A certificate for localhost that vouches for itself, and its key.
class Certificate {
 public:
  /// Valid from an hour ago until `expires` seconds from now; negative: expired.
  explicit Certificate(const std::filesystem::path& folder, long expires = 30L * 24 * 3600)
      : certificate(folder / "cert.pem"), key(folder / "key.pem") {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"),
                                                                   EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), std::min(-3600L, expires - 3600));
    X509_gmtime_adj(X509_getm_notAfter(made.get()), expires);
    X509_set_pubkey(made.get(), pair.get());
    X509_NAME* name = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(made.get(), name);
    add(made.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    add(made.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(made.get(), pair.get(), EVP_sha256());
    write(certificate, [&](std::FILE* file) { return PEM_write_X509(file, made.get()); });
    write(key, [&](std::FILE* file) {
      return PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  const std::filesystem::path certificate, key;

 private:
  static void add(X509* to, int kind, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
  }
  template <class F>
  static void write(const std::filesystem::path& path, F content) {
    if (content(open_file(path, "w").get()) != 1) throw std::runtime_error("cannot write " + path.string());
  }
};

/// Writes the key of one file to another, encrypted with a pass phrase.
inline void write_locked_key(const std::filesystem::path& key, const std::filesystem::path& to) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(
      PEM_read_PrivateKey(open_file(key, "r").get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  unsigned char phrase[] = "secret";
  if (PEM_write_PrivateKey(open_file(to, "w").get(), pair.get(), EVP_aes_256_cbc(), phrase, 6, nullptr, nullptr) != 1) {
    throw std::runtime_error("cannot write " + to.string());
  }
}

}  // namespace babelring::testing
