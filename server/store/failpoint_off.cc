#include "server/store/failpoint.h"

namespace babelring::store {

void failpoint(std::string_view) {}

}  // namespace babelring::store
