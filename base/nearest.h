#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// The known name with the smallest edit distance to `name`. Empty if that distance exceeds max(2, length / 3).
/// For messages such as: unknown key 'warmup'; did you mean 'warm_up'?
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// "" or "; did you mean 'X'?".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

/// The same for dotted keys. Suggests up to three keys with the same last part as `key` ("seed" suggests
/// 'training.seed'), otherwise the nearest key.
std::string did_you_mean_key(std::string_view key, const std::vector<std::string>& known);

}  // namespace babelring
