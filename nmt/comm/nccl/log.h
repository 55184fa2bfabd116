#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace babelring {

/// What NCCL chose, as its own log says (NCCL_DEBUG=INFO, subsystems INIT, BOOTSTRAP and TUNING). Members are empty
/// where it did not say.
struct NcclChoice {
  std::set<std::string> algorithms;  // of all-reduces: RING
  std::set<std::string> protocols;   // SIMPLE
  std::string channels;              // for collectives: "24"
  std::set<std::string> transports;  // P2P/CUMEM, SHM/direct, NET/IB/0/GDRDMA
  std::set<std::string> interfaces;  // eth0, mlx5_0:1/IB

  /// "RING in protocol SIMPLE, 24 channels, by P2P/CUMEM and NET/Socket/0 over eth0".
  std::string text() const;
};

/// Of a log, of one rank or several one after another. Lines of other kinds are passed over.
NcclChoice parse_nccl_log(std::string_view log);

/// Its lines that parse_nccl_log() uses, each once: short enough to be sent to other ranks.
std::string nccl_log_extract(std::string_view log);

/// Has NCCL write its log to a file of ours, unless the user has it written already (NCCL_DEBUG). NCCL looks at the
/// environment at its first call in a process: make it before that, once.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// Whether the user has it, not we.
  bool is_users() const { return file_ < 0; }
  /// What was written since clear(); empty if it is the user's.
  std::string read() const;
  /// Drops what was written: a line for each all-reduce would fill the disk.
  void clear();

 private:
  int file_ = -1;
  std::filesystem::path path_;
};

}  // namespace babelring
