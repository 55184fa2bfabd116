#include "base/checkpoint_names.h"

#include <fstream>
#include <iterator>
#include <system_error>

namespace babelring {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view checkpoint_prefix = "update-";

/// The first kilobytes of a file, more than SHA256SUMS of any checkpoint but one of many shards; empty if it cannot be
/// read.
std::string beginning_of(const fs::path& file) {
  std::string text(std::size_t{64} << 10, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// The sibling of the folder `best` with the same digests; empty if there is none.
std::string same_sibling(const fs::path& best) {
  const std::string sums = beginning_of(best / "SHA256SUMS");
  std::error_code error;
  for (fs::directory_iterator entry(best.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (is_checkpoint_name(name) && !sums.empty() && beginning_of(entry->path() / "SHA256SUMS") == sums) return name;
  }
  return "";
}

}  // namespace

bool is_checkpoint_name(std::string_view name) {
  constexpr std::size_t max_digits = 18;
  return name.size() > checkpoint_prefix.size() && name.size() <= checkpoint_prefix.size() + max_digits &&
         name.starts_with(checkpoint_prefix) &&
         name.find_first_not_of("0123456789", checkpoint_prefix.size()) == std::string_view::npos;
}

std::string best_checkpoint_name(const fs::path& given) {
  const fs::path checkpoints = given.empty() ? fs::path(".") : given;
  const fs::path best = checkpoints / best_name;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(best, error);
  std::string name;
  if (fs::is_symlink(status)) {
    const fs::path target = (checkpoints / fs::read_symlink(best, error) / "").lexically_normal().parent_path();
    if (fs::equivalent(target.parent_path(), checkpoints, error)) name = target.filename().string();
  } else if (fs::is_regular_file(status)) {
    name = beginning_of(best);
    name.erase(name.find_last_not_of(" \t\r\n") + 1);
  } else if (fs::is_directory(status)) {
    name = same_sibling(best);
    if (name.empty() && fs::exists(best / "state.json", error)) return best_name;
  }
  return is_checkpoint_name(name) ? name : "";
}

}  // namespace babelring
