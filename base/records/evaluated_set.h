#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// The set that evaluations of a sample of the training set name (validation.train_sample).
inline constexpr const char* train_sample_set = "train";

/// Name of an evaluation on `set`: "training sample", otherwise "validation on valid".
inline std::string evaluation_name(std::string_view set) {
  return set == train_sample_set ? "training sample" : "validation on " + std::string(set);
}

}  // namespace babelring
