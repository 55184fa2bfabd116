#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

#include <boost/asio/ssl/error.hpp>
#include <string_view>

#include "nmt/base/failure.h"

namespace babelring::http {
namespace {

/// The only protocol that is spoken within. `wanted` holds names, each behind a byte with its length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* wanted,
                    unsigned int wanted_size, void*) {
  constexpr std::string_view ours = "\x08http/1.1";
  const std::string_view theirs(reinterpret_cast<const char*>(wanted), wanted_size);
  const auto at = theirs.find(ours);
  if (at == std::string_view::npos) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = wanted + at + 1;
  *chosen_size = static_cast<unsigned char>(ours.size() - 1);
  return SSL_TLSEXT_ERR_OK;
}

void require(const boost::system::error_code& code, const char* option, const std::filesystem::path& file) {
  if (code) throw UsageFailure(fmt::format("{} {}: {}", option, file.string(), code.message()));
}

}  // namespace

std::unique_ptr<boost::asio::ssl::context> make_tls_context(const std::filesystem::path& certificate,
                                                            const std::filesystem::path& key) {
  namespace ssl = boost::asio::ssl;
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* handle = context->native_handle();
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression | SSL_OP_NO_RENEGOTIATION |
                       SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(handle, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    fail("tls: OpenSSL does not have the protocol or ciphers that are wanted");
  }
  SSL_CTX_set_alpn_select_cb(handle, choose_protocol, nullptr);
  boost::system::error_code code;
  context->use_certificate_chain_file(certificate.string(), code);
  require(code, "--tls-cert", certificate);
  context->use_private_key_file(key.string(), ssl::context::pem, code);
  require(code, "--tls-key", key);
  if (SSL_CTX_check_private_key(handle) != 1) {
    throw UsageFailure(fmt::format("--tls-key {}: not the key of {}", key.string(), certificate.string()));
  }
  return context;
}

bool spoke_plain_http(const boost::system::error_code& code) {
  return code.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace babelring::http
