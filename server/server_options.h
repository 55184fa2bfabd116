#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace babelring {

/// The server's command line.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::filesystem::path data = "runs/server";
  std::vector<std::filesystem::path> checkpoint_roots;  // besides the data folder
  std::filesystem::path page_folder;                    // empty: the embedded page
  std::set<std::string> hosts;                          // lower case
  std::string log_level = "info";

  /// Throws UsageFailure for a wrong command line, or when the address is open to others without the user saying that
  /// this is meant. Empty after --help or --version was answered.
  static std::optional<ServerOptions> parse(int argc, char** argv);
};

}  // namespace babelring
