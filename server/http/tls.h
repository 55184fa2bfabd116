#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>

namespace babelring::http {

/// A context that speaks only TLS 1.2 and 1.3 with modern ciphers, from PEM files of the server's certificate with its
/// chain and of its key. Throws UsageFailure naming the file that is wrong.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const std::filesystem::path& certificate,
                                                            const std::filesystem::path& key);

/// Whether a handshake failed because the client speaks plain HTTP.
bool spoke_plain_http(const boost::system::error_code& code);

}  // namespace babelring::http
