#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nmt/lab/lab.h"
#include "nmt/train/config.h"

namespace babelring {

/// What the tools borrow from the program around them. All must outlive the Lab.
struct LabParts {
  const TrainConfig& config;
  std::filesystem::path folder;  // RUN/lab; created by the first file
  std::string corpus;            // digest of the training set
};

/// The tools that the configuration turns on (lab.*). Null if there is none.
std::unique_ptr<Lab> make_lab(const LabParts& parts);

}  // namespace babelring
