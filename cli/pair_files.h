#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/json.h"

namespace babelring {

/// Numbers of lines. They are kept with the progress, so that a resumed run ends with those of all.
struct AugmentCounts {
  std::int64_t lines = 0, pairs = 0, split = 0, cut = 0, repaired = 0;

  static constexpr std::array<std::pair<const char*, std::int64_t AugmentCounts::*>, 5> fields() {
    return {{{"lines", &AugmentCounts::lines},
             {"pairs", &AugmentCounts::pairs},
             {"split", &AugmentCounts::split},
             {"cut", &AugmentCounts::cut},
             {"repaired", &AugmentCounts::repaired}}};
  }
  void add(const AugmentCounts& other) {
    for (const auto& [name, count] : fields()) this->*count += other.*count;
  }
};

/// Progress of a pair of files: what is complete in them, and what they were made of.
struct PairProgress {
  AugmentCounts counts;
  std::int64_t source_bytes = 0, target_bytes = 0;
  bool complete = false;
  json::object made_of;
};

/// A pair of files with their progress: PREFIX.source, PREFIX.target, PREFIX.augment.json. Lines are appended in
/// blocks; after each the progress is stored, so that a process that ends at any time loses no more than a block.
struct PairFiles {
  std::string prefix;
  std::filesystem::path source() const { return prefix + ".source"; }
  std::filesystem::path target() const { return prefix + ".target"; }
  std::filesystem::path progress() const { return prefix + ".augment.json"; }
  bool exist() const { return std::filesystem::exists(source()) || std::filesystem::exists(target()); }

  /// The stored progress; none if there is no such file. Throws Failure if the file has another form.
  std::optional<PairProgress> stored() const;
  /// The stored progress, or else a new one, with both files cut to it. Throws Failure if they are shorter,
  /// UsageFailure that names the first option, text or checkpoint that differs.
  PairProgress resume(const json::object& made_of) const;
  /// Appends lines. Throws Failure.
  void append(std::string_view source_lines, std::string_view target_lines) const;
  /// Stores the progress with the sizes of the files, which are durable before.
  void store(PairProgress& progress) const;
  /// Removes the three files.
  void remove() const;
};

/// Throws UsageFailure that names the first difference between what files were made of and what is wanted.
void require_same(const json::object& found, const json::object& wanted, const std::filesystem::path& file);

/// Holds a lock, PREFIX.augment.lock, and removes its file at the end.
class PairLock {
 public:
  /// `wait`: for the process that holds it. Otherwise throws Failure if there is one.
  PairLock(const std::string& prefix, bool wait);
  ~PairLock();
  PairLock(const PairLock&) = delete;
  PairLock& operator=(const PairLock&) = delete;

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

}  // namespace babelring
