#include "lab/tools/make_lab.h"

#include "lab/lab_folder.h"
#include "lab/memory/memory_tool.h"
#include "lab/parameters/parameter_trace.h"
#include "lab/probe/run_probe.h"
#include "lab/record/profile_tool.h"
#include "lab/timeline/timeline.h"

namespace babelring {

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
