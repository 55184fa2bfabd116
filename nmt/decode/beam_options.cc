#include "nmt/decode/beam_options.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"

namespace babelring {

void BeamOptions::check() const {
  const auto require = [](bool good, const char* option, auto found, const char* expected) {
    if (!good) throw UsageFailure(fmt::format("{}: found {}, expected {}", option, found, expected));
  };
  require(beam >= 1 && beam <= 1000, "beam", beam, "1 to 1000");
  require(n_best >= 1 && n_best <= beam, "n-best", n_best, "at least 1 and at most the beam");
  require(length_penalty >= 0 && length_penalty <= 10, "length-penalty", length_penalty, "0 to 10");
  require(max_length_factor >= 0 && max_length_factor <= 100, "max-length-factor", max_length_factor, "0 to 100");
  require(max_length_extra >= 0 && max_length_extra <= 10000, "max-length-extra", max_length_extra, "0 to 10000");
  require(unk_penalty >= 0 && unk_penalty <= 1e6, "unk-penalty", unk_penalty, "0 to 1000000");
}

double BeamOptions::penalty(std::int64_t length) const {
  const auto n = static_cast<double>(length);
  return std::pow(length_formula == LengthFormula::gnmt ? (5 + n) / 6 : n, length_penalty);
}

std::int64_t BeamOptions::max_length(std::int64_t source_pieces) const {
  const auto scaled = static_cast<std::int64_t>(max_length_factor * static_cast<double>(source_pieces));
  return std::max<std::int64_t>(1, scaled + max_length_extra);
}

}  // namespace babelring
