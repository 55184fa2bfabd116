#pragma once

#include <string_view>

#include "server/http/message.h"

namespace babelring::http {

/// True if an Accept-Encoding header accepts gzip. An absent header does not.
bool accepts_gzip(std::string_view accept_encoding);

/// Compresses JSON bodies over 1 kB with gzip (zlib level 1) if the request accepts it. The ETag of the compressed body
/// is the plain ETag with "-gzip" before the closing quote. A 304 carries the ETag sent by the client.
void compress(const RequestMessage& request, Response& response);

}  // namespace babelring::http
