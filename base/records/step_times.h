#pragma once

#include <array>
#include <span>

namespace babelring {

/// The times of one update on one rank, in ms. The parts `data` to `other` add up to `step`.
struct StepTimes {
  double step = 0;
  double data = 0;  // waiting for batches
  double forward = 0, backward = 0;
  double exposed_communication = 0;  // waiting for collectives
  double optimizer = 0, other = 0;
  double communication = 0;  // with a collective in progress, whether exposed or beside the other parts

  double compute() const { return forward + backward + optimizer; }
  double sum_of_parts() const { return data + compute() + exposed_communication + other; }
};

/// A member of StepTimes and its name in records, in the API and on the page.
struct StepTimesMember {
  const char* key;
  double StepTimes::* value;
};

inline constexpr std::array<StepTimesMember, 8> step_times_members = {{
    {"step_ms", &StepTimes::step},
    {"data_ms", &StepTimes::data},
    {"forward_ms", &StepTimes::forward},
    {"backward_ms", &StepTimes::backward},
    {"exposed_communication_ms", &StepTimes::exposed_communication},
    {"optimizer_ms", &StepTimes::optimizer},
    {"other_ms", &StepTimes::other},
    {"communication_ms", &StepTimes::communication},
}};
/// The parts of a step.
inline constexpr auto step_part_members = std::span(step_times_members).subspan<1, 6>();

}  // namespace babelring
