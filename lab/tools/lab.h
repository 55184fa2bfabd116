#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/records/records.h"
#include "base/span_log.h"
#include "nmt/data/vocabulary.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

/// Passes each call to several observers, in their order; ranges end in reverse order.
class OpObservers : public OpObserver {
 public:
  /// Not owned.
  explicit OpObservers(std::vector<OpObserver*> observers) : observers_(std::move(observers)) {}

  /// The closest watch of any observer.
  Watch watch() const override;
  void enter(const char* range) override;
  void leave() override;
  void begins(const OpRun& run) override;
  void ran(const OpRun& run) override;

 private:
  std::vector<OpObserver*> observers_;
};

/// The tools that look inside of one rank's updates, as one UpdateObserver. In an update that no tool observes, ops run
/// as if there were no tools.
class Lab : public UpdateObserver {
 public:
  void add(std::unique_ptr<UpdateObserver> tool) { tools_.push_back(std::move(tool)); }

  bool votes_for_trace() override;
  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  void recorded(const StepRecord& record) override;
  void finish() override;

 private:
  std::vector<std::unique_ptr<UpdateObserver>> tools_;
  std::unique_ptr<OpObservers> observers_;  // of the current update, if it has several
};

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
