#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace babelring {

/// NCCL's choices, parsed from its log (NCCL_DEBUG=INFO, subsystems INIT, BOOTSTRAP and TUNING). Members are empty if
/// the log does not state them.
struct NcclChoice {
  std::set<std::string> algorithms;  // of all-reduces: RING
  std::set<std::string> protocols;   // SIMPLE
  std::string channels;              // for collectives: "24"
  std::set<std::string> transports;  // P2P/CUMEM, SHM/direct, NET/IB/0/GDRDMA
  std::set<std::string> interfaces;  // eth0, mlx5_0:1/IB

  /// "RING in protocol SIMPLE, 24 channels, by P2P/CUMEM and NET/Socket/0 over eth0".
  std::string text() const;
};

/// Parses the log of one rank, or the concatenated logs of several. Ignores other lines.
NcclChoice parse_nccl_log(std::string_view log);

/// Returns the log lines that parse_nccl_log() uses, without duplicates. Short enough to send to other ranks.
std::string nccl_log_extract(std::string_view log);

/// Redirects NCCL's log to a temporary file, unless the user has set NCCL_DEBUG. NCCL reads the environment at its
/// first call in a process, so create this object once, before that call.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// True if the user has set NCCL_DEBUG, so the log is not ours to read.
  bool is_users() const { return file_ < 0; }
  /// The log text since the last clear(); empty if is_users().
  std::string read() const;
  /// Discards the log so far. NCCL logs a line per all-reduce, which would fill the disk.
  void clear();

 private:
  int file_ = -1;
  std::filesystem::path path_;
};

}  // namespace babelring
