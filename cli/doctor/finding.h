#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace babelring {

/// ok: works; warn: works with restrictions; fail: does not work.
enum class Severity { ok, warn, fail };

/// One line of `nmt doctor`.
struct Diagnosis {
  std::string area;  // "network"
  Severity severity = Severity::ok;
  std::string text;    // what was found
  std::string advice;  // what to do; empty: nothing
};
using Diagnoses = std::vector<Diagnosis>;

/// Root folders of the kernel's virtual file systems; replaced in tests.
struct KernelFiles {
  std::filesystem::path proc = "/proc", sys = "/sys";
};

/// The first line of a file, without newline; empty if it cannot be read.
std::string first_line(const std::filesystem::path& file);

/// The worst severity.
Severity worst_of(const Diagnoses& findings);
/// Formats the findings as text: one line each, with the advice below.
std::string text_of(const Diagnoses& findings);
/// {"verdict": "ok", "findings": [{"area", "verdict", "text", "advice"}]}.
json::object json_of(const Diagnoses& findings);

}  // namespace babelring
