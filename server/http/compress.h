#pragma once

#include <string_view>

#include "server/http/message.h"

namespace babelring::http {

/// Whether an Accept-Encoding header accepts gzip. An absent header does not.
bool accepts_gzip(std::string_view accept_encoding);

/// Compresses JSON of more than 1 kB (zlib level 1) if the request accepts gzip. The ETag of the compressed form is
/// that of the plain one with "-gzip" before the closing quote; a 304 carries the one that the client has.
void compress(const Request& request, Response& response);

}  // namespace babelring::http
