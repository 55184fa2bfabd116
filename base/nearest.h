#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// The known name with the smallest edit distance to `name`, or empty if none is near (distance over a third of its
/// length, at least 2). For messages such as: unknown key 'warmup'; did you mean 'warm_up'?
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// "" or "; did you mean 'X'?".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

/// The same for dotted keys: those whose last part is that of `key` ("seed": 'training.seed'), at most three, else the
/// nearest one.
std::string did_you_mean_key(std::string_view key, const std::vector<std::string>& known);

}  // namespace babelring
