#pragma once

#include <string_view>

#include "server/http/message.h"

namespace babelring::http {

/// Does an Accept-Encoding header take gzip?
bool accepts_gzip(std::string_view accept_encoding);

/// Packs JSON of more than 1 kB by zlib's level 1 if the request takes gzip. The ETag of the packed form is that of the
/// plain one with "-gzip" before the closing quote.
void compress(const Request& request, Response& response);

}  // namespace babelring::http
