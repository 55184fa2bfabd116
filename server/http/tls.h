#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>
#include <string>

namespace babelring::http {

/// A context that speaks only TLS 1.2 and 1.3 with modern ciphers, from PEM files of the server's certificate with its
/// chain and of its key. Throws UsageFailure naming the file that is wrong.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const std::filesystem::path& certificate,
                                                            const std::filesystem::path& key);

/// "CN=host, valid until 2027-01-31T12:00:00.000Z" of the context's certificate.
std::string describe_certificate(boost::asio::ssl::context& context);
/// Whether the context's certificate is past the end of its validity.
bool has_expired(boost::asio::ssl::context& context);

/// Whether a handshake failed because the client speaks plain HTTP.
bool spoke_plain_http(const boost::system::error_code& code);

}  // namespace babelring::http
