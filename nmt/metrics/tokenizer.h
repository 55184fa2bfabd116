#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace babelring {

/// BLEU tokenisers, each equal to sacreBLEU's tokeniser of that name.
///  - thirteen_a: "13a", mteval-v13a of WMT. Splits ASCII punctuation, but keeps '.' ',' '-' inside numbers.
///  - none: white space only, for text that is already tokenised.
///  - intl: "intl", mteval-v14 --international-tokenization. Splits Unicode punctuation and symbols.
///  - character: "char", every character except white space is a token.
enum class Tokenizer { thirteen_a, none, intl, character };

/// "13a", "none", "intl", "char".
std::string_view name_of(Tokenizer tokenizer);
/// Parses a tokeniser name; the Error lists all names.
Result<Tokenizer> parse_tokenizer(std::string_view name);

/// Splits a line of UTF-8 into tokens.
std::vector<std::u32string> tokenize(Tokenizer tokenizer, std::string_view line);

}  // namespace babelring
