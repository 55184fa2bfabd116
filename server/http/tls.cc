#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

#include <array>
#include <boost/asio/ssl/error.hpp>

#include "nmt/base/failure.h"

namespace babelring::http {
namespace {

/// Chooses the application protocol (ALPN): HTTP/1.1 or none. Names are preceded by their length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  static constexpr std::array<unsigned char, 9> ours = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  const int found = SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_size, ours.data(), ours.size(),
                                          offered, offered_size);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
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
    fail("tls: OpenSSL lacks TLS 1.2 or the required ciphers");
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
