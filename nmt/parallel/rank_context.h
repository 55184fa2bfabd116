#pragma once

#include "nmt/comm/communicator.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Backend, communicator and arenas of one rank. All must outlive the users of this struct.
struct RankContext {
  Backend& backend;
  Communicator& communicator;
  ActivationArenas& arenas;
};

}  // namespace babelring
