#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/ssl/error.hpp>
#include <cstdint>
#include <ctime>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"

namespace babelring::http {
namespace {

/// ALPN callback: selects HTTP/1.1 or none. Each protocol name is preceded by its length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  static constexpr std::array<unsigned char, 9> ours = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  const int found = SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_size, ours.data(), ours.size(),
                                          offered, offered_size);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// Refuses encrypted keys. Without this callback, OpenSSL would ask for the pass phrase on the terminal.
int no_pass_phrase(char*, int, int, void*) {
  return -1;
}

bool is_of_other_key(const boost::system::error_code& code) {
  const auto value = static_cast<unsigned long>(code.value());
  if (!code || ERR_GET_LIB(value) != ERR_LIB_X509) return false;
  return ERR_GET_REASON(value) == X509_R_KEY_VALUES_MISMATCH || ERR_GET_REASON(value) == X509_R_KEY_TYPE_MISMATCH;
}

void require(const boost::system::error_code& code, const char* option, const std::filesystem::path& file) {
  if (code) throw UsageFailure(fmt::format("{} {}: {}", option, file.string(), code.message()));
}

std::string subject_of(const X509* certificate) {
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
  return fmt::format("CN={}", printable(name.data()));
}

std::string rfc3339(const ASN1_TIME* time) {
  std::tm fields{};
  ASN1_TIME_to_tm(time, &fields);
  return format_rfc3339(std::int64_t{timegm(&fields)} * 1000);
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
  SSL_CTX_set_default_passwd_cb(handle, no_pass_phrase);
  boost::system::error_code code;
  context->use_certificate_chain_file(certificate.string(), code);
  require(code, "--tls-cert", certificate);
  context->use_private_key_file(key.string(), ssl::context::pem, code);
  const bool other_key = is_of_other_key(code);
  if (!other_key) require(code, "--tls-key", key);
  if (other_key || SSL_CTX_check_private_key(handle) != 1) {
    throw UsageFailure(fmt::format("--tls-key {}: not the key of {}", key.string(), certificate.string()));
  }
  return context;
}

std::string describe_certificate(boost::asio::ssl::context& context) {
  const X509* certificate = SSL_CTX_get0_certificate(context.native_handle());
  if (certificate == nullptr) return "none";
  return fmt::format("{}, valid until {}", subject_of(certificate), rfc3339(X509_get0_notAfter(certificate)));
}

std::string certificate_warning(boost::asio::ssl::context& context) {
  constexpr int warning_days = 14;
  const X509* certificate = SSL_CTX_get0_certificate(context.native_handle());
  if (certificate == nullptr) return "";
  const ASN1_TIME* begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* end = X509_get0_notAfter(certificate);
  const std::string subject = subject_of(certificate);
  if (X509_cmp_current_time(end) < 0) {
    return fmt::format("the certificate of {} expired on {}: clients refuse it", subject, rfc3339(end));
  }
  if (X509_cmp_current_time(begin) > 0) {
    return fmt::format("the certificate of {} is not valid before {}: clients refuse it", subject, rfc3339(begin));
  }
  std::time_t renewal = std::time(nullptr) + std::time_t{warning_days} * 24 * 3600;
  if (X509_cmp_time(end, &renewal) < 0) {
    return fmt::format("the certificate of {} expires on {}: renew it, then send SIGHUP", subject, rfc3339(end));
  }
  return "";
}

bool spoke_plain_http(const boost::system::error_code& code) {
  return code.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace babelring::http
