#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace babelring {

/// How BLEU cuts a line into tokens, each equal to sacreBLEU's tokeniser of that name.
///  - thirteen_a: "13a", mteval-v13a of the WMT: ASCII punctuation apart, '.' ',' '-' kept inside numbers.
///  - none: white space only, for text that is tokenised already.
///  - intl: "intl", mteval-v14 --international-tokenization: Unicode punctuation and symbols apart.
///  - character: "char", every character but white space is a token.
enum class Tokenizer { thirteen_a, none, intl, character };

/// "13a", "none", "intl", "char".
std::string_view name_of(Tokenizer tokenizer);
/// The Error names the tokenisers there are.
Result<Tokenizer> tokenizer_named(std::string_view name);

/// The tokens of a line of UTF-8.
std::vector<std::u32string> tokenize(Tokenizer tokenizer, std::string_view line);

}  // namespace babelring
