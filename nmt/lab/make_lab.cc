#include "nmt/lab/make_lab.h"

#include "nmt/lab/probe/run_probe.h"

namespace babelring {

std::unique_ptr<Lab> make_lab(const LabParts& parts) {
  const LabConfig& config = parts.config.lab;
  auto lab = std::make_unique<Lab>();
  bool any = false;
  if (config.probe.at.value() > 0) {
    any = true;
    lab->add(std::make_unique<RunProbe>(parts.config, parts.folder, parts.corpus));
  }
  return any ? std::move(lab) : nullptr;
}

}  // namespace babelring
