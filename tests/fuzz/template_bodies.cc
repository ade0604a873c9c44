#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bodies.h"
#include "folio/io/json.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat_template.h"
#include "input.h"

namespace folio {
namespace {

// Templates that together use most of the language.
constexpr std::string_view kTemplates[] = {
    "{% set ns = namespace(n=0, s='') %}{%- for m in messages[::-1] if m.role != 'x' %}\n"
    "  {%- set ns.n = ns.n + loop.index0 * 2 // 3 %}{% if m.content is string and 'a' in m.content "
    "%}{{ m.content.split('a')[-1].lstrip('\\n') | trim | upper }}{% elif loop.last %}{% continue "
    "%}"
    "{% else %}{% break %}{% endif %}{{ loop.nextitem.role }}{% else %}none{% endfor -%}\n"
    "{% generation %}{{ ns.n ~ ns.s }}<|x|>{% endgeneration %}",
    "{% macro f(a, b=[1, 2.5], c={'k': none}) -%}{{ a if a is not none else b[1:] }}{{ c.k }}"
    "{% if a > 0 %}{{ f(a - 1, b=c) }}{% endif %}{%- endmacro %}{{ f(3) }}{# comment #}\n"
    "{%+ set x %}{{ tools | tojson(indent=2) }}{% endset %}{{ x[:40] | replace('e', 'EE') }}",
    "{{ bos_token }}{% for k, v in messages[0] | dictsort %}{{ k ~ '=' ~ v | string | length }}"
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') "
    "}}{% endfor %}{{ [3, 1, -2] | sort | unique | list }}{{ strftime_now('%d %b %Y') }}"
    "{{ {'a': (1,), 2: 1e3}.items() | list }}{{ not 1 < 2 <= 3 and x is defined or 'b' * 3 % 2 }}"
    "{{ 'a{}'.format(1).startswith(('a', 'b')) }}{{ range(1, 9, 3) | last | default('d', true) }}",
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{% endif %}"};

constexpr std::string_view kParts[] = {"{{ ",
                                       " }}",
                                       "{% ",
                                       " %}",
                                       "{%- ",
                                       " -%}",
                                       "{#",
                                       "#}",
                                       "messages",
                                       "[0].content",
                                       ".role",
                                       " | tojson",
                                       " | list",
                                       " | join('')",
                                       " | sort",
                                       " | items",
                                       " | map('upper')",
                                       " | indent",
                                       " is string",
                                       " is iterable",
                                       " in ",
                                       " ~ ",
                                       " + ",
                                       " * ",
                                       " // ",
                                       " - ",
                                       "(",
                                       ")",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "[::-1]",
                                       "[1:",
                                       "'a'",
                                       "99999",
                                       "0.5",
                                       "none",
                                       "loop.last",
                                       "ns.s",
                                       ".split()",
                                       ".replace('', 'b')",
                                       ".get('k')",
                                       "range(9)",
                                       "if x",
                                       "else",
                                       "endif",
                                       "for a, b in ",
                                       "endfor",
                                       "set ns.s = ns.s + ns.s",
                                       "set x",
                                       "endset",
                                       "macro f(a)",
                                       "endmacro",
                                       "f(f)",
                                       "\\",
                                       "'",
                                       "\n",
                                       "<|im_end|>"};

// The text of a user.
std::string Content(FuzzInput& input) {
  constexpr std::array<std::string_view, 6> kContents = {
      "", " a b\n", "<|im_end|>", "<|im_start|>system\n", "\xff\xc3 a<|x", "|>\u00e9\U0001f600"};
  const uint8_t kind = input.Byte();
  return kind % 8 < kContents.size() ? std::string(kContents[kind % 8])
                                     : std::string(input.Take(kind % 32));
}

}  // namespace

testing::AssertionResult ChatTemplateIsRenderedOrRefused(std::string_view bytes) {
  FuzzInput input(bytes);
  static const std::unique_ptr<Tokenizer> tokenizer =
      ByteTokenizer().WithSpecials(std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|x|>"});
  const uint8_t kind = input.Byte();
  ChatInput chat;
  chat.add_generation_prompt = kind % 2 == 0;
  chat.bos_token = "<|x|>";
  chat.messages = ChatMessagesJson(std::vector<ChatMessage>{{ChatRole::kSystem, Content(input)},
                                                            {ChatRole::kUser, Content(input)}});
  if (kind % 4 == 0) chat.tools = Json::array({Json{{"name", Content(input)}, {"n", {1, 2.5}}}});
  const std::string source =
      kind >= 240 ? std::string(input.Rest())
                  : ChangedText(std::string(kTemplates[kind / 4 % 4]), kParts, input);
  RenderedChat rendered;
  const auto read = ReadOrRefused([&] { rendered = ChatTemplate(source, "x").Render(chat); });
  if (!read) return read;
  std::vector<int32_t> ids;
  EncodeRendered(*tokenizer, rendered, "x", ids);
  if (tokenizer->Decode(ids) != rendered.text) {
    return testing::AssertionFailure() << "tokens are not those of the text: " << source;
  }
  // No special token holds a byte that the template did not write.
  size_t byte = 0;
  for (const int32_t id : ids) {
    const size_t end = byte + tokenizer->TokenBytes(id).size();
    for (const TextRange& given : rendered.given) {
      if (end - byte > 1 && given.begin < end && given.end > byte) {
        return testing::AssertionFailure() << "a special token that was given: " << source;
      }
    }
    byte = end;
  }
  return testing::AssertionSuccess();
}

}  // namespace folio
