#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "insight/predict/gradient_sum.h"

namespace babelring {

/// Parses a link: RATE[,LATENCY[,BUSY]], such as "25gbit,20us" or "218-231MB/s,50us,300ms/GB". Rates are in mbit, gbit,
/// MB/s or GB/s (10^6 and 10^9), or `inf`; a range becomes its middle and Link::rate_error. Latencies are in us or ms.
/// BUSY is the processor time that sending a gigabyte takes. A rate of 0 is an error.
Result<insight::Link> parse_link(std::string_view text);

}  // namespace babelring
