#include "base/result.h"

#include "base/failure.h"

namespace babelring {

void Error::raise() const {
  throw Failure(message);
}

}  // namespace babelring
