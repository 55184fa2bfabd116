#pragma once

#include "base/options.h"

namespace babelring {

/// The lab's tools, which look inside of updates: a struct with its own bind() for each tool. None of them changes the
/// bits of a run, so a resumed run may have other values.
struct LabConfig {
  int keep = 20;

  void bind(OptionBinder& binder);
};

}  // namespace babelring
