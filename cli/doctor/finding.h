#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace babelring {

/// ok: it works; warn: it works badly, or may surprise; fail: it does not work.
enum class Verdict { ok, warn, fail };

/// One line of `nmt doctor`.
struct Diagnosis {
  std::string area;  // "network"
  Verdict verdict = Verdict::ok;
  std::string text;    // what was found
  std::string advice;  // what to do; empty: nothing
};
using Diagnoses = std::vector<Diagnosis>;

/// Where the kernel describes the machine. Tests have trees of their own.
struct KernelFiles {
  std::filesystem::path proc = "/proc", sys = "/sys";
};

/// First line of a file without its end; empty if it cannot be read.
std::string first_line(const std::filesystem::path& file);

/// The worst of them.
Verdict worst_of(const Diagnoses& findings);
/// For people: a line for each, and the advice under it.
std::string text_of(const Diagnoses& findings);
/// {"verdict": "ok", "findings": [{"area", "verdict", "text", "advice"}]}.
json::object json_of(const Diagnoses& findings);

}  // namespace babelring
