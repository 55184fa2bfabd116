#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "cli/model_options.h"

namespace babelring {

/// Bounds of the process that serves, for whoever starts it and must not suffer from it.
struct ServiceLimits {
  std::int64_t memory_mb = 0;    // of address space; 0: none
  bool end_with_parent = false;  // killed when the process that started it ends
};

/// `nmt translate --serve`: loads one checkpoint, says so in a line, then answers each request line with one line,
/// until its input ends. docs/formats.md has the lines. What is wrong with one request is its answer; what is wrong
/// with the service throws.
void serve_translations(const ModelOptions& model, const ServiceLimits& limits, std::istream& in, std::ostream& out);

}  // namespace babelring
