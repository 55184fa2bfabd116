#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace babelring {

/// The older part of a spool, rank-0.old.jsonl beside rank-0.jsonl: what was written before the spool was rotated.
inline std::filesystem::path older_part(const std::filesystem::path& spool) {
  return std::filesystem::path(spool).replace_extension(".old.jsonl");
}

/// The parts of a spool that exist, the older one first.
inline std::vector<std::filesystem::path> spool_parts(const std::filesystem::path& spool) {
  std::vector<std::filesystem::path> parts;
  std::error_code absent;
  for (const std::filesystem::path& part : {older_part(spool), spool}) {
    if (std::filesystem::exists(part, absent)) parts.push_back(part);
  }
  return parts;
}

}  // namespace babelring
