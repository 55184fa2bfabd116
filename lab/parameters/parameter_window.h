#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/parameters/traced_parameter.h"

namespace babelring {

/// Changes by the optimizer, row by row, during the updates of one window.
struct ParameterWindow {
  std::string run;
  std::int64_t time_ms = 0;  // of its end, since 1970 UTC
  std::int64_t first_update = 0, last_update = 0;
  std::int64_t updates = 0;  // counted: without skipped ones
  std::int64_t heads = 1;    // of each attention
  std::string precision;     // of the compute copies: "bf16", or "f32" if products read the masters
  std::vector<TracedParameter> parameters;
  std::vector<RowCount> rows;  // of all parameters
};

/// "parameters-00001000", for a window that ends with update 1000.
std::string window_name(std::int64_t last_update);

/// The content of parameters-00001000.json, a summary (docs/formats.md). `vocabulary`: null if there is no text. Throws
/// Failure if the window has no counted update.
boost::json::object window_json(const ParameterWindow& window, const Vocabulary* vocabulary);

/// Writes parameters-00001000.safetensors, all rows. Throws Failure if it cannot be written.
void write_rows(const ParameterWindow& window, const std::filesystem::path& file);

/// Reads a window from its JSON file and the safetensors file beside it. Throws Failure (file, what was found, what was
/// expected) if a file is torn, has another format, does not fit the other, or if the window has no counted update.
ParameterWindow read_window(const std::filesystem::path& json_file);

/// The JSON files of the windows in RUN/lab, oldest first. Throws Failure if there is none.
std::vector<std::filesystem::path> find_windows(const std::filesystem::path& run_folder);

}  // namespace babelring
