#include "lab/tools/lab.h"

#include <algorithm>
#include <utility>

#include "lab/lab_folder.h"
#include "lab/memory/memory_trace.h"
#include "lab/parameters/parameter_trace.h"
#include "lab/probe/run_probe.h"
#include "lab/record/profile_tool.h"
#include "lab/timeline/timeline.h"

namespace babelring {

Watch OpObservers::watch() const {
  Watch closest = Watch::order;
  for (const OpObserver* observer : observers_) closest = std::max(closest, observer->watch());
  return closest;
}

void OpObservers::enter(const char* range) {
  for (OpObserver* observer : observers_) observer->enter(range);
}

void OpObservers::leave() {
  for (auto observer = observers_.rbegin(); observer != observers_.rend(); ++observer) (*observer)->leave();
}

void OpObservers::begins(const OpRun& run) {
  for (OpObserver* observer : observers_) observer->begins(run);
}

void OpObservers::ran(const OpRun& run) {
  for (OpObserver* observer : observers_) observer->ran(run);
}

bool Lab::votes_for_trace() {
  bool votes = false;
  for (const auto& tool : tools_) votes = tool->votes_for_trace() || votes;  // every tool is asked
  return votes;
}

OpObserver* Lab::begin(const UpdateStart& start) {
  std::vector<OpObserver*> observers;
  for (const auto& tool : tools_) {
    if (OpObserver* observer = tool->begin(start)) observers.push_back(observer);
  }
  observers_ = observers.size() > 1 ? std::make_unique<OpObservers>(observers) : nullptr;
  if (observers_ != nullptr) return observers_.get();
  return observers.empty() ? nullptr : observers.front();
}

void Lab::end(const StepRecord& record) {
  for (const auto& tool : tools_) tool->end(record);
}

void Lab::recorded(const StepRecord& record) {
  for (const auto& tool : tools_) tool->recorded(record);
}

void Lab::finish() {
  for (const auto& tool : tools_) tool->finish();
}

namespace {

std::unique_ptr<UpdateObserver> make_timeline(const LabParts& parts, const std::shared_ptr<LabFolder>& files) {
  return std::make_unique<Timeline>(Timeline::Parts{
      .config = parts.config.lab.trace,
      .run = parts.run,
      .spans = parts.spans,
      .request = parts.trace_request,
      .write = [files](const Artifact& artifact, std::string_view file) { files->write(artifact, file); }});
}

std::unique_ptr<UpdateObserver> make_parameter_trace(const LabParts& parts, const LabFolder& files) {
  return std::make_unique<ParameterTrace>(
      ParameterTraceOptions{.window = static_cast<std::int64_t>(parts.config.lab.parameters.window.value()),
                            .run = parts.run,
                            .heads = parts.config.model.heads,
                            .vocabulary = parts.vocabulary},
      files);
}

}  // namespace

std::unique_ptr<Lab> make_lab(const LabParts& parts) {
  const LabConfig& config = parts.config.lab;
  const auto files = std::make_shared<LabFolder>(parts.folder, config.keep, parts.rank, parts.records);
  auto lab = std::make_unique<Lab>();
  if (config.probe.at.value() > 0) lab->add(std::make_unique<RunProbe>(parts.config, *files, parts.corpus));
  lab->add(make_timeline(parts, files));
  if (config.parameters.window.value() > 0) lab->add(make_parameter_trace(parts, *files));
  if (config.memory.at > 0) lab->add(std::make_unique<MemoryTool>(config.memory, files, parts.rank));
  if (config.profile.start > 0 && parts.rank == 0)
    lab->add(std::make_unique<ProfileTool>(parts.config, files, parts.threads));
  return lab;
}

}  // namespace babelring
