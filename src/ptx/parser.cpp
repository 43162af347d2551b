#include "ptx/parser.h"

#include <algorithm>

#include <fmt/format.h>

#include "ptx/names.h"
#include "ptx/parser_impl.h"
#include "ptx/spelling.h"

namespace ptxbench::ptx {

Parser::Parser(std::string_view text, std::string name, const ParseOptions& options)
    : lexer_(text), name_(std::move(name)), options_(options) {}

bool Parser::accept(char punctuation) {
  if (!is(punctuation)) return false;
  advance();
  return true;
}

bool Parser::expect(char punctuation, std::string_view where) {
  if (accept(punctuation)) return true;
  return fail_expected(fmt::format("'{}' {}", punctuation, where));
}

bool Parser::fail_position(uint32_t line, uint32_t column, std::string message) {
  if (error_.empty()) error_ = fmt::format("{}:{}:{}: {}", name_, line, column, message);
  return false;
}

bool Parser::fail(const Token& at, std::string message) {
  if (at.kind == TokenKind::invalid) message = fmt::format("{}: {}", describe(at), at.problem);
  return fail_position(at.line, at.column, std::move(message));
}

bool Parser::fail_expected(std::string_view expected) {
  return fail(token_, fmt::format("expected {}, found {}", expected, describe(token_)));
}

std::string Parser::describe(const Token& token) const {
  const auto quote = [](std::string_view text) {
    std::string safe;
    for (const char c : text.substr(0, 40)) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte >= 0x7f)
        safe += fmt::format("\\x{:02x}", byte);
      else
        safe += c;
    }
    if (text.size() > 40) safe += "...";
    return "'" + safe + "'";
  };
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::string:
      return "string \"" + quote(token.text).substr(1, 40) + "\"";
    case TokenKind::invalid:
      return token.text.empty() ? quote(lexer_.text().substr(token.offset, 8)) : quote(token.text);
    default:
      return quote(token.text);
  }
}

bool Parser::integer(uint64_t& value, std::string_view what) {
  if (token_.kind != TokenKind::integer) return fail_expected(what);
  value = token_.bits;
  advance();
  return true;
}

bool Parser::identifier(std::string_view& name, std::string_view what) {
  if (token_.kind != TokenKind::identifier) return fail_expected(what);
  name = token_.text;
  advance();
  return true;
}

Result<Module> Parser::run() {
  if (lexer_.text().size() > options_.max_text_bytes)
    return input_error("{}: the text has {} bytes, more than the limit of {}", name_, lexer_.text().size(),
                       options_.max_text_bytes);
  advance();
  bool good = version_and_target();
  while (good && token_.kind != TokenKind::end) good = module_item();
  if (!good) return tl::unexpected<Error>(Error{ErrorKind::input, error_});
  return std::move(module_);
}

bool Parser::version_and_target() {
  if (!is_dotted(".version")) return fail_expected("'.version' as the first directive");
  advance();
  const Token version = token_;
  const size_t point = version.text.find('.');
  const bool shaped = version.kind == TokenKind::floating && point != std::string_view::npos && point > 0 &&
                      point <= 3 && version.text.size() > point + 1 && version.text.size() <= point + 3 &&
                      version.text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!shaped) return fail_expected("a PTX ISA version such as 9.0");
  for (const char c : version.text.substr(0, point))
    module_.version_major = module_.version_major * 10 + static_cast<uint32_t>(c - '0');
  for (const char c : version.text.substr(point + 1))
    module_.version_minor = module_.version_minor * 10 + static_cast<uint32_t>(c - '0');
  target_.isa = module_.version_major * 10 + module_.version_minor;
  advance();
  if (!is_dotted(".target")) return fail_expected("'.target' after '.version'");
  advance();
  const Token target = token_;
  std::string_view name;
  if (!identifier(name, "a target such as sm_90a")) return false;
  const std::string_view digits = name.size() > 3 ? name.substr(3) : std::string_view();
  size_t count = 0;
  while (count < digits.size() && digits[count] >= '0' && digits[count] <= '9') ++count;
  const bool known =
      name.starts_with("sm_") && count >= 2 && count <= 3 &&
      (digits.size() == count || (digits.size() == count + 1 && (digits[count] == 'a' || digits[count] == 'f')));
  if (!known) return fail(target, fmt::format("expected a target such as sm_90a, found {}", describe(target)));
  for (const char c : digits.substr(0, count)) target_.number = target_.number * 10 + static_cast<uint32_t>(c - '0');
  target_.suffix = digits.size() > count ? digits[count] : '\0';
  module_.target = name;
  while (accept(',')) {
    std::string_view option;
    if (!identifier(option, "a target option")) return false;
    module_.target_options.emplace_back(option);
  }
  if (is_dotted(".address_size")) {
    advance();
    const Token at = token_;
    uint64_t bits = 0;
    if (!integer(bits, "an address size")) return false;
    if (bits != 64)
      return fail(at, fmt::format("expected '.address_size 64', found {}: 32-bit addressing is not "
                                  "supported on this architecture",
                                  bits));
    module_.address_size = 64;
  }
  return true;
}

void Parser::text_item(std::string text) {
  module_.items.push_back({Module::Item::Kind::text, kNone, std::move(text)});
}

bool Parser::module_item() {
  if (token_.kind != TokenKind::dotted) return fail_expected("a directive such as .entry, .func, .global");
  Linkage linkage;
  for (;;) {
    if (is_dotted(".extern"))
      linkage.is_extern = true;
    else if (is_dotted(".visible"))
      linkage.is_visible = true;
    else if (is_dotted(".weak"))
      linkage.is_weak = true;
    else if (is_dotted(".common"))
      linkage.is_common = true;
    else
      break;
    advance();
  }
  const bool linked = linkage.is_extern || linkage.is_visible || linkage.is_weak || linkage.is_common;
  if (token_.kind != TokenKind::dotted) return fail_expected("a directive after the linkage");
  const std::string_view word = token_.text;
  if (word == ".entry" || word == ".func") {
    advance();
    return function(linkage, word == ".entry");
  }
  if (word == ".global" || word == ".const" || word == ".shared" || word == ".local") {
    advance();
    return module_variables(mod_space(find_modifier(word.substr(1))), linkage);
  }
  if (!linked) {
    if (word == ".file") return file_directive();
    if (word == ".section") return section_directive();
    if (word == ".alias") return alias_directive();
    if (word == ".pragma") {
      std::string text;
      if (!pragma_directive(text)) return false;
      text_item(std::move(text));
      return true;
    }
    if (word == ".version" || word == ".target" || word == ".address_size")
      return fail(token_, fmt::format("'{}' may appear only once, at the start of the module", word));
  }
  NearestSpelling nearest(word);
  for (const std::string_view known : {".entry", ".func", ".global", ".const", ".shared", ".local", ".file", ".section",
                                       ".alias", ".pragma", ".extern", ".visible", ".weak", ".common"})
    nearest.offer(known);
  return fail(token_, fmt::format("expected a module directive, found '{}'{}", word, nearest.hint()));
}

bool Parser::file_directive() {
  const Token start = token_;
  advance();
  uint64_t index = 0;
  if (!integer(index, "a file index after '.file'")) return false;
  if (token_.kind != TokenKind::string) return fail_expected("the file's name in quotes");
  const std::string path(token_.text);
  std::string text = fmt::format(".file {} \"{}\"", index, path);
  advance();
  if (accept(',')) {
    uint64_t time = 0, size = 0;
    if (!integer(time, "the file's time stamp") || !expect(',', "before the file's size") ||
        !integer(size, "the file's size"))
      return false;
    text += fmt::format(", {}, {}", time, size);
  }
  module_.files.push_back({static_cast<uint32_t>(index), path});
  text_item(std::move(text));
  debug_text(start);
  return true;
}

bool Parser::section_directive() {
  const Token start = token_;
  advance();
  std::string name(token_.text);
  if (token_.kind != TokenKind::dotted && token_.kind != TokenKind::identifier)
    return fail_expected("a section name after '.section'");
  advance();
  if (!is('{')) return fail_expected("'{' to open the section");
  std::string_view body;
  if (!lexer_.raw_block(body)) return fail(start, "section is never closed; add '}'");
  advance();
  text_item(fmt::format(".section {} {{{}}}", name, body));
  if (name.starts_with(".debug")) debug_text(start);
  return true;
}

bool Parser::alias_directive() {
  advance();
  const Token alias_at = token_;
  std::string_view alias, target;
  if (!identifier(alias, "the alias's name")) return false;
  if (!expect(',', "between alias and function")) return false;
  const Token target_at = token_;
  if (!identifier(target, "the function an alias stands for")) return false;
  const NameEntry* from = module_names_.find(alias, hash_text(alias));
  const NameEntry* to = module_names_.find(target, hash_text(target));
  if (from == nullptr || from->kind != NameKind::function)
    return fail(alias_at, fmt::format("alias '{}' has no function declaration before it", alias));
  if (to == nullptr || to->kind != NameKind::function)
    return fail(target_at, fmt::format("alias to unknown function '{}'", target));
  module_.functions[from->index].alias_of = to->index;
  text_item(fmt::format(".alias {}, {};", alias, target));
  return expect(';', "after '.alias'");
}

bool Parser::pragma_directive(std::string& text) {
  text = ".pragma ";
  do {
    advance();
    if (token_.kind != TokenKind::string) return fail_expected("a string after '.pragma'");
    if (text.size() > 8) text += ", ";
    text += fmt::format("\"{}\"", token_.text);
    advance();
  } while (is(','));
  text += ';';
  return expect(';', "after '.pragma'");
}

bool Parser::define_module_name(const Token& at, std::string_view name, NameKind kind, uint32_t index) {
  const uint64_t hash = hash_text(name);
  if (module_names_.find(name, hash) != nullptr) return fail(at, fmt::format("duplicate definition of '{}'", name));
  module_names_.insert(name, hash, kind, index);
  return true;
}

Result<Module> parse_module(std::string_view text, std::string name, const ParseOptions& options) {
  return Parser(text, std::move(name), options).run();
}

}  // namespace ptxbench::ptx
