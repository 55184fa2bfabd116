#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <thread>

namespace babelring {

/// A certificate to make, in days from now.
struct CertificateOptions {
  std::string names = "DNS:localhost,IP:127.0.0.1";
  int valid_from = -1, valid_to = 1;
  bool by_authority = false;  // issued by a test authority; otherwise self-signed
};

/// A certificate and its private key, in PEM, made with OpenSSL.
class Certificate {
 public:
  explicit Certificate(const CertificateOptions& options) {
    const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free), authority(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> made(X509_new(), X509_free);
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_time_adj_ex(X509_getm_notBefore(made.get()), options.valid_from, 0, nullptr);
    X509_time_adj_ex(X509_getm_notAfter(made.get()), options.valid_to, 0, nullptr);
    name(X509_get_subject_name(made.get()), "server");
    name(X509_get_issuer_name(made.get()), options.by_authority ? "authority" : "server");
    X509_set_pubkey(made.get(), key.get());
    X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, options.names.c_str());
    X509_add_ext(made.get(), names, -1);
    X509_EXTENSION_free(names);
    X509_sign(made.get(), options.by_authority ? authority.get() : key.get(), EVP_sha256());
    certificate_ = pem([&](BIO* out) { PEM_write_bio_X509(out, made.get()); });
    key_ = pem([&](BIO* out) { PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }
  const std::string& certificate() const { return certificate_; }
  const std::string& key() const { return key_; }

 private:
  using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

  static void name(X509_NAME* name, const char* text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, bytes, -1, -1, 0);
  }
  template <class Write>
  static std::string pem(Write write) {
    const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new(BIO_s_mem()), BIO_free);
    write(out.get());
    char* text = nullptr;
    const long size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<std::size_t>(size)};
  }
  std::string certificate_, key_;
};

/// Serves 200 with an empty JSON object over TLS, on a loopback port.
class TlsServer {
 public:
  explicit TlsServer(const Certificate& certificate)
      : acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}) {
    tls_.use_certificate_chain(boost::asio::buffer(certificate.certificate()));
    tls_.use_private_key(boost::asio::buffer(certificate.key()), boost::asio::ssl::context::pem);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~TlsServer() {
    ending_ = true;
    boost::asio::ip::tcp::socket(context_).connect(acceptor_.local_endpoint());
    thread_.join();
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  /// "https://localhost:PORT", or with another scheme.
  std::string address(const std::string& scheme = "https") const {
    return scheme + "://localhost:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  void accept_all() {
    while (true) {
      boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream(context_, tls_);
      acceptor_.accept(stream.lowest_layer());
      if (ending_) return;
      boost::system::error_code code;
      boost::asio::streambuf head;
      stream.handshake(boost::asio::ssl::stream_base::server, code);
      if (!code) boost::asio::read_until(stream, head, "\r\n\r\n", code);
      if (code) continue;
      const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
      boost::asio::write(stream, boost::asio::buffer(answer), code);
    }
  }

  boost::asio::io_context context_;
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_server};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace babelring
