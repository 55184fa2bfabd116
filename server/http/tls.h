#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>
#include <string>

namespace babelring::http {

/// Creates a context for TLS 1.2 and 1.3 with modern ciphers. `certificate` (with its chain) and `key` are PEM files.
/// Throws UsageFailure naming the invalid file.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const std::filesystem::path& certificate,
                                                            const std::filesystem::path& key);

/// Subject and expiry of the context's certificate, for example "CN=host, valid until 2027-01-31T12:00:00.000Z".
std::string describe_certificate(boost::asio::ssl::context& context);
/// Warns of a certificate that clients refuse now or within the next 14 days: "expired on …", "not valid before …" or
/// "expires on …", with its subject. Empty if it is valid for longer.
std::string certificate_warning(boost::asio::ssl::context& context);

/// True if a handshake failed because the client sent plain HTTP.
bool spoke_plain_http(const boost::system::error_code& code);

}  // namespace babelring::http
