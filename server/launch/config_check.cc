#include "server/launch/config_check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "server/launch/process.h"

namespace babelring::launch {
namespace {

namespace fs = std::filesystem;

/// An anonymous in-memory file with this text. It disappears when the process ends. Throws Failure.
int open_text(const std::string& text) {
  const int file = memfd_create("babelring-config", MFD_CLOEXEC);
  if (file < 0) fail("memfd_create: {}", std::strerror(errno));
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      close(file);
      fail("memfd: {}", std::strerror(error));
    }
    done += static_cast<std::size_t>(written);
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

/// Neither path needs to exist: the data may be available only on other hosts.
bool lies_below(const fs::path& path, const fs::path& root) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  if (error) return false;
  fs::path outer = fs::weakly_canonical(root, error);
  if (error) return false;
  if (!outer.has_filename()) outer = outer.parent_path();  // for "/data/"
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

CheckedConfig read_verdict(const json::object& verdict) {
  CheckedConfig checked;
  checked.yaml = get_text(verdict, "config");
  checked.name = get_text(verdict, "name");
  checked.max_updates = get_integer(verdict, "max_updates");
  checked.data_folder = get_text(verdict, "data_folder");
  checked.start_from = get_text(verdict, "start_from");
  if (const json::value* memory = verdict.if_contains("memory"); memory != nullptr && memory->is_object()) {
    for (const char* member : memory_members) checked.memory[member] = get_integer(memory->get_object(), member);
  }
  if (const json::value* list = verdict.if_contains("not_estimated"); list != nullptr && list->is_array()) {
    for (const json::value& entry : list->get_array()) {
      if (entry.is_string()) checked.not_estimated.emplace_back(entry.get_string());
    }
  }
  const json::value* list = verdict.if_contains("errors");
  if (list == nullptr || !list->is_array()) return checked;
  for (const json::value& entry : list->get_array()) {
    if (!entry.is_object()) continue;
    const json::object& fault = entry.get_object();
    checked.faults.push_back({get_text(fault, "pointer"), get_text(fault, "detail"), get_integer(fault, "line"),
                              get_integer(fault, "column")});
  }
  return checked;
}

}  // namespace

CheckedConfig check_config(const Profile& profile, const std::string& yaml, const std::string& name, std::int64_t ranks,
                           CheckLimits limits) {
  const FileDescriptor file(open_text(yaml));
  ProcessOrder order{.arguments = {profile.worker, "--check-config", "--config", "/proc/self/fd/0"},
                     .environment = plain_environment(),
                     .folder = profile.working_folder,
                     .output = {},
                     .input = file.get()};
  if (profile.data_is_here) order.arguments.emplace_back("--check-data");
  if (ranks > 1) order.arguments.insert(order.arguments.end(), {"--check-ranks", std::to_string(ranks)});
  if (!name.empty()) order.arguments.push_back("name=" + name);
  order.nice = 5;  // must not slow down the server
  const ProgramAnswer answer = run_program(order, {.time = limits.time,
                                                   .output_bytes = std::size_t{4} << 20,
                                                   .memory_bytes = std::uint64_t{4} << 30,
                                                   .abandoned = std::move(limits.abandoned)});
  if (answer.late) throw CheckLate(printable(answer.complaint));
  const auto verdict = parse_json(answer.output);
  if (answer.code < 0 || !verdict.ok() || !verdict->is_object()) {
    fail("{} --check-config: exit code {}: {}", profile.worker, answer.code,
         printable(answer.complaint).substr(0, 300));
  }
  CheckedConfig checked = read_verdict(verdict->get_object());
  if (answer.code != 0 && checked.faults.empty()) fail("{} --check-config: exit code {}", profile.worker, answer.code);
  if (!checked.faults.empty() || profile.data_roots.empty()) return checked;
  const auto require_root = [&](const std::string& path, const char* pointer, const char* key) {
    const auto& roots = profile.data_roots;
    if (std::any_of(roots.begin(), roots.end(), [&](const auto& root) { return lies_below(path, root); })) return;
    checked.faults.push_back(
        {pointer, fmt::format("{}: {} is not below a folder of profile {}", key, path, profile.name), 0, 0});
  };
  if (!checked.data_folder.empty()) require_root(checked.data_folder, "/data/folder", "data.folder");
  const bool of_a_run = !profile.folder.empty() && lies_below(checked.start_from, profile.folder);
  if (!checked.start_from.empty() && !of_a_run) {
    require_root(checked.start_from, "/training/start_from", "training.start_from");
  }
  return checked;
}

}  // namespace babelring::launch
