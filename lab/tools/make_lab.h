#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/records/records.h"
#include "base/span_log.h"
#include "nmt/data/vocabulary.h"
#include "lab/tools/lab.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"

namespace babelring {

/// Objects of the program that the tools use. All must outlive the Lab.
struct LabParts {
  const TrainConfig& config;
  std::filesystem::path folder;  // RUN/lab; created by the first file
  std::string corpus;            // digest of the training set
  std::string run;               // r_…
  std::int64_t rank = 0;
  RecordSink& records;
  SpanLog& spans;                          // the log of this rank's threads
  const Vocabulary* vocabulary = nullptr;  // null for tasks without text
  TraceRequest* trace_request = nullptr;   // of rank 0; null on other ranks, and if nobody can request a trace
  int threads = 1;                         // of the backend
};

/// The tools that the configuration turns on (lab.*), and the timeline, which can also be requested. All ranks need a
/// Lab: they begin a requested trace together.
std::unique_ptr<Lab> make_lab(const LabParts& parts);

}  // namespace babelring
