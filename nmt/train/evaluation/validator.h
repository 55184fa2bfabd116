#pragma once

#include "base/records.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/model/model.h"

namespace babelring {

/// Evaluates a model on a held-out set that the ranks share out.
class Validator {
 public:
  virtual ~Validator() = default;

  /// Collective; returns the same record on all ranks. The caller sets `update` and `best`. `translate`: also translate
  /// the set, if the model translates.
  virtual EvalRecord run(const Model& model, bool translate) = 0;
  /// Arena sizes that run() needs, for ActivationArenas::reserve().
  virtual ArenaBytes need(const Model& model) const = 0;
};

}  // namespace babelring
