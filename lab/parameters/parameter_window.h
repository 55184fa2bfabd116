#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/optim/adam.h"

namespace babelring {

/// Meaning of a parameter's rows.
enum class RowKind {
  subwords,  // of an embedding or the output table
  neurons,   // of a feed-forward layer's first weight and bias
  heads,     // of the weights that make queries, keys and values: each row belongs to a head
  outputs,   // of other matrices
  vector,    // another bias or a gain is one row
};
std::string name_of(RowKind kind);

/// A parameter whose rows are counted.
struct TracedParameter {
  std::string name;
  std::int64_t rows = 0, width = 0;
  std::int64_t first_row = 0;  // its place among the rows of all parameters
  RowKind kind = RowKind::outputs;
  bool frozen = false;
};

/// The parameters of a store in their order.
std::vector<TracedParameter> traced_parameters(const ParameterStore& store, const Adam& adam);

/// The kind of rows that a parameter of this name and number of dimensions has.
RowKind row_kind(const std::string& name, int dimensions);

/// A row of a RowKind::heads parameter: 'q', 'k' or 'v', and the head.
struct HeadRow {
  char part = 'q';
  std::int64_t head = 0;
};
HeadRow head_of(const TracedParameter& parameter, std::int64_t row, std::int64_t heads);

/// "▁the" for a subword, "q head 3" for a row of a head, else "". `vocabulary`: null if there is no text.
std::string row_label(const TracedParameter& parameter, std::int64_t row, std::int64_t heads,
                      const Vocabulary* vocabulary);

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
