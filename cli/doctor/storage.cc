#include "cli/doctor/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/file_descriptor.h"
#include "base/network_disk.h"
#include "base/result.h"
#include "nmt/data/manifest.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// True if the folder's file system is, or may be, on the network.
bool on_network(const fs::path& folder) {
  return disk_type(folder).place != DiskPlace::local;
}

Diagnosis room_finding(const fs::path& folder) {
  constexpr double gb = 1e9;
  std::error_code error;
  const double available = static_cast<double>(fs::space(folder, error).available);
  Diagnosis finding{.area = "storage",
                    .text = fmt::format("{}: {:.1f} GB free{}", folder.string(), error ? 0 : available / gb,
                                        on_network(folder) ? ", on the network" : "")};
  if (error || available < 10 * gb) {
    finding.severity = error || available < gb ? Severity::fail : Severity::warn;
    finding.advice =
        "a checkpoint of transformer-base needs 0.9 GB, and several are kept: free space, or choose "
        "another folder (--run-dir)";
  }
  return finding;
}

FileDescriptor open_to_lock(const fs::path& file) {
  return FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

bool take_lock(const FileDescriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Tests that file locks work and exclude each other.
Status test_locks(const fs::path& file) {
  const FileDescriptor first = open_to_lock(file), second = open_to_lock(file);
  if (!take_lock(first)) return Error{std::strerror(errno)};
  if (take_lock(second)) return Error{"two processes can hold the same lock"};
  if (errno != EWOULDBLOCK) return Error{std::strerror(errno)};
  return {};
}

Diagnosis lock_finding(const fs::path& folder, const fs::path& file) {
  Diagnosis finding{.area = "storage", .text = fmt::format("{}: file locks work", folder.string())};
  const Status locks = test_locks(file);
  if (locks) return finding;
  finding.severity = Severity::fail;
  finding.text = fmt::format("{}: file locks do not work: {}", folder.string(), locks.error());
  finding.advice = "spools and the server's data need flock(2): use a local folder, or a mount with locks";
  return finding;
}

Diagnosis write_finding(const fs::path& folder, const fs::path& file) {
  constexpr double slow_ms = 500;
  const Stopwatch watch;
  Diagnosis finding{.area = "storage", .text = {}};
  try {
    write_file_atomically(file, "nmt doctor\n");
  } catch (const Failure& failure) {
    finding.severity = Severity::fail;
    finding.text = failure.what();
    finding.advice = "runs are written here: grant write permission, or choose another folder (--run-dir)";
    return finding;
  }
  const double ms = watch.elapsed_ms();
  finding.text = fmt::format("{}: a small fsynced write takes {:.0f} ms", folder.string(), ms);
  if (ms > slow_ms) {
    finding.severity = Severity::warn;
    finding.advice = "slow disk: checkpoints and spools wait for it";
  }
  return finding;
}

constexpr const char* copy_again = "copy the folder again from a host whose copy is good, or prepare it again";

/// The error of work on a folder of data as a finding.
template <class Work>
std::optional<Diagnosis> data_fault(const Work& work) try {
  work();
  return std::nullopt;
} catch (const Failure& failure) {
  return Diagnosis{.area = "data", .severity = Severity::fail, .text = failure.what(), .advice = copy_again};
}

}  // namespace

Diagnoses data_findings(const fs::path& folder) {
  Manifest manifest;
  if (auto fault = data_fault([&] { manifest = load_manifest(folder); })) return {*fault};
  std::vector<ManifestFile> files{manifest.vocabulary};
  for (const ManifestSet& set : manifest.sets) {
    const std::vector<ManifestFile> more = manifest.files_of(set.name);
    files.insert(files.end(), more.begin(), more.end());
  }
  Diagnoses findings;
  double bytes = 0;
  for (const ManifestFile& file : files) {
    bytes += static_cast<double>(file.bytes);
    if (auto fault = data_fault([&] { check_file(folder, file, true); })) findings.push_back(std::move(*fault));
  }
  if (!findings.empty()) return findings;
  return {{.area = "data",
           .text = fmt::format("{}: {} files, {:.1f} MB, have the digests of its manifest", folder.string(),
                               files.size(), bytes * 1e-6)}};
}

Diagnoses storage_findings(const std::filesystem::path& wanted) {
  const fs::path folder = existing_folder(wanted);
  const fs::path file = folder / fmt::format(".nmt-doctor-{}", getpid());
  Diagnoses findings{room_finding(folder), write_finding(folder, file)};
  if (findings.back().severity != Severity::fail) findings.push_back(lock_finding(folder, file));
  std::error_code ignored;
  fs::remove(file, ignored);
  return findings;
}

}  // namespace babelring
