#include "nmt/parallel/unit_gradients.h"

#include <bit>

#include "base/failure.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

namespace {

/// Before unit n begins, as many sums wait as n has bits: one of 2^b units for each bit b.
int waiting_before(int unit) {
  return std::popcount(static_cast<unsigned>(unit));
}

}  // namespace

UnitGradients::UnitGradients(Backend& backend, ParameterStore& store, int units)
    : backend_(backend), store_(store), units_(units) {
  if (!std::has_single_bit(static_cast<unsigned>(units))) fail("unit gradients: {} units, expected 2^n", units);
  for (int further = 0; further < std::countr_zero(static_cast<unsigned>(units)); ++further) {
    store.add_gradients(backend.allocate(store.gradients().bytes(), MemoryPurpose::gradients));
  }
}

void UnitGradients::begin(int unit) {
  for (const Parameter& parameter : store_.all()) store_.write_gradient_to(parameter, waiting_before(unit));
}

void UnitGradients::add(const Parameter& parameter, int unit) {
  int array = waiting_before(unit);
  for (; array >= waiting_before(unit + 1); --array) {
    backend_.run(Add{.x = store_.gradient(parameter, array), .y = store_.gradient(parameter, array - 1)});
  }
  if (unit + 1 == units_) store_.write_gradient_to(parameter, 0);
}

void UnitGradients::add_all(const float* gradients, int unit) {
  for (const Parameter& parameter : store_.all()) {
    backend_.upload(gradients + parameter.offset, store_.gradient(parameter, waiting_before(unit)));
    add(parameter, unit);
  }
}

}  // namespace babelring
