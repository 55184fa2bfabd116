#pragma once

#include "base/files.h"
#include "base/json.h"
#include "lab/parameters/parameter_window.h"

namespace babelring {

/// 100 updates of a model of width 4 with 2 heads: a table of 3 subwords, queries, keys and values, a neuron, a bias.
inline ParameterWindow example_window() {
  ParameterWindow window{.run = "r_00000000000000000000000000",
                         .time_ms = 1795247730123,
                         .first_update = 1,
                         .last_update = 100,
                         .updates = 100,
                         .heads = 2,
                         .precision = "bf16",
                         .parameters = {},
                         .rows = {}};
  const auto add = [&window](const std::string& name, std::int64_t rows, int dimensions) {
    window.parameters.push_back({.name = name,
                                 .rows = rows,
                                 .width = 4,
                                 .first_row = std::ssize(window.rows),
                                 .kind = row_kind(name, dimensions)});
    for (std::int64_t row = 0; row < rows; ++row) {
      RowCount count{.changed_elements = 400, .ratios = 100 * 0.25, .max_ratio = 0.5f, .counted = 100};
      count.changed = count.visible = count.touched = count.measured = 100;
      window.rows.push_back(count);
    }
  };
  add("encoder.embedding", 3, 2);
  add("encoder.0.attention.qkv.weight", 12, 2);
  add("decoder.0.cross.query.weight", 4, 2);
  add("decoder.0.cross.key_value.weight", 8, 2);
  add("encoder.0.feed_forward.first.weight", 1, 2);
  add("encoder.0.feed_forward.first.bias", 1, 1);
  window.rows[1] = {.counted = 100};                                             // never changed
  window.rows[2] = {.changed_elements = std::int64_t{5} << 32, .counted = 100};  // changed, but not visible
  window.rows[2].changed = 50, window.rows[2].touched = 40;
  return window;
}

/// Writes the two files of a window as a run does. Returns the JSON file.
inline std::filesystem::path write_window(const std::filesystem::path& folder, const ParameterWindow& window) {
  std::filesystem::create_directories(folder);
  const std::string file = folder / window_name(window.last_update);
  write_rows(window, file + ".safetensors");
  write_file_atomically(file + ".json", to_text(window_json(window, nullptr)));
  return file + ".json";
}

}  // namespace babelring
