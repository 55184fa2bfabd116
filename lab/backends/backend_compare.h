#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/backends/comparing_backend.h"
#include "lab/probe/probe_run.h"

namespace babelring {

/// Two backends and how far they are apart, op by op.
struct BackendComparison {
  std::string a, b;  // descriptions
  std::vector<OpDifference> differences;
};

/// Runs the plan's updates, and the ops that these do not need, by both backends on the same inputs. Every op runs at
/// least once if the plan trains. Throws like save_probe(), and Failure if a backend has no matmul of the plan's
/// precision.
BackendComparison compare_backends(const ProbePlan& plan, std::unique_ptr<Backend> a, std::unique_ptr<Backend> b);

json::object to_json(const BackendComparison& comparison);

/// The names that make_named_backend() knows.
inline const std::vector<std::string> backend_names = {"cpu", "cuda", "emulated-cuda", "f32"};

/// "cpu" with `threads` threads (0: all processors), "cuda": device 0, "emulated-cuda": the GPU's code on the CPU,
/// which builds with tests have beside their programs, or "f32": the CPU with every bf16 operand as f32. Throws
/// UsageFailure, which begins with `option`, if it is not available here.
std::unique_ptr<Backend> make_named_backend(const std::string& option, const std::string& name, int threads);

}  // namespace babelring
