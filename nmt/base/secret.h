#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// 256 bits from the system's source of randomness as 43 characters of base64url. Throws Failure if there are none.
std::string make_secret();

/// Are the texts equal? Takes as long wherever they differ; only a difference in length shows.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace babelring
