#pragma once

#include <filesystem>
#include <string>

#include "client/http_client.h"

namespace babelring {

/// Which server to ask, and as whom.
struct ServerAccess {
  std::string address;              // http://host:port
  std::string token;                // empty: none
  std::filesystem::path ca_file{};  // authorities that https trusts; empty: the system's
};

/// The user's options, and for those left out the environment: the address from BABELRING_SERVER, else
/// http://127.0.0.1:8080; the token by find_token(); the authorities from BABELRING_CA_FILE.
ServerAccess find_server(const std::string& address, const std::filesystem::path& token_file,
                         const std::filesystem::path& ca_file = {});

/// The token of `token_file`, if one is named; else of BABELRING_TOKEN; else of ~/.config/babelring/token
/// ($XDG_CONFIG_HOME), if it is there; else empty. A file's first line counts. Throws UsageFailure if a file that is
/// there cannot be read or holds no token.
std::string find_token(const std::filesystem::path& token_file);

/// Options for a client that asks as `access` says.
HttpClientOptions client_options(const ServerAccess& access,
                                 std::chrono::milliseconds timeout = std::chrono::milliseconds(10000));

}  // namespace babelring
