#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ptx/lexer.h"
#include "ptx/matcher.h"
#include "ptx/name_table.h"
#include "ptx/parser.h"

/// The recursive-descent parser behind parse_module; private to this room.
namespace ptxbench::ptx {

/// A constant expression's value (ISA "Constant Expression Evaluation").
struct Constant {
  enum class Kind : uint8_t { s64, u64, f64, f32 } kind = Kind::s64;
  uint64_t bits = 0;
};

/// Names a scope's `%r<100>` register range.
struct RegisterRange {
  Type type = Type::none;
  uint64_t count = 0;
  uint32_t vector = 1;
};

struct Scope {
  NameTable names;
  NameTable labels;
};

class Parser {
 public:
  Parser(std::string_view text, std::string name, const ParseOptions& options);
  Result<Module> run();

 private:
  // --- tokens and errors (parser.cpp)
  void advance() { token_ = lexer_.next(); }
  bool is(char punctuation) const { return token_.kind == TokenKind::punctuation && token_.punctuation == punctuation; }
  bool is_dotted(std::string_view text) const { return token_.kind == TokenKind::dotted && token_.text == text; }
  bool accept(char punctuation);
  bool expect(char punctuation, std::string_view where);
  bool fail(const Token& at, std::string message);
  bool fail_position(uint32_t line, uint32_t column, std::string message);
  bool fail_expected(std::string_view expected);
  std::string describe(const Token& token) const;
  bool integer(uint64_t& value, std::string_view what);
  bool identifier(std::string_view& name, std::string_view what);

  // --- module level (parser.cpp)
  bool module_item();
  bool version_and_target();
  bool file_directive();
  bool section_directive();
  bool alias_directive();
  bool pragma_directive(std::string& text);
  bool define_module_name(const Token& at, std::string_view name, NameKind kind, uint32_t index);
  void text_item(std::string text);
  /// Notes that the text from `start` up to the present token is debug information.
  void debug_text(const Token& start) { module_.debug_text.push_back({start.offset, token_.offset}); }

  // --- declarations (parse_declaration.cpp)
  struct Linkage {
    bool is_extern = false, is_visible = false, is_weak = false, is_common = false;
  };
  struct VariableHead {
    StateSpace space = StateSpace::generic;
    Type type = Type::none;
    uint32_t vector = 1, alignment = 0;
    std::vector<std::string> attributes;
    bool pointer = false;
    StateSpace pointer_space = StateSpace::generic;
    uint32_t pointer_alignment = 0;
  };
  bool variable_head(VariableHead& head, bool parameter);
  bool attribute_list(std::vector<std::string>& attributes);
  bool declarator(const VariableHead& head, const Linkage& linkage, Variable& variable, Token& at);
  bool finish_variable(const Token& at, Variable& variable);
  bool initialiser(Variable& variable);
  bool initialiser_list(Variable& variable, size_t dimension, uint64_t& element, uint64_t& entries);
  bool initialiser_element(Variable& variable, uint64_t element, uint64_t element_bytes);
  bool module_variables(StateSpace space, const Linkage& linkage);
  bool parameter_list(Function& function, std::vector<uint32_t>& into);

  // --- constant expressions (parse_constant.cpp)
  bool constant_expression(Constant& value);
  bool constant_binary(Constant& value, int minimum_precedence);
  bool constant_unary(Constant& value);
  bool integer_constant(int64_t& value, std::string_view what);

  // --- functions (parse_function.cpp)
  bool function(const Linkage& linkage, bool entry);
  bool performance_directives(Function& function);
  bool body(Function& function);
  bool statement();
  bool directive_statement();
  bool open_scope();
  bool close_scope();
  bool register_declaration();
  bool local_variables(StateSpace space);
  bool location_directive();
  bool label_statement(const Token& name);
  bool branch_targets(uint32_t label);
  bool call_targets(uint32_t label);
  bool call_prototype(uint32_t label);
  bool prototype_list(std::vector<uint64_t>& sizes, std::string& text);
  bool resolve_labels();
  bool finish_labels(Scope& scope, Scope* parent);
  uint32_t reference_label(const Token& at);
  bool define_local_name(const Token& at, std::string_view name, NameKind kind, uint32_t index);

  // --- instructions (parse_instruction.cpp)
  bool instruction(const Token& name);
  bool guard(uint32_t& predicate, bool& negated);
  bool opcode_name(const Token& name, std::string_view& text);
  const Spelling& spelling_of(std::string_view name);
  bool operand(Operand& operand, Op op);
  bool scalar_operand(Operand& operand, Op op);
  bool name_operand(Operand& operand, Op op);
  bool address_operand(Operand& operand);
  bool vector_operand(Operand& operand, Op op);
  bool call_operands(std::vector<Operand>& operands);
  bool call_argument_list(Operand& list, bool returns);
  bool check_call(const Token& at, const Instruction& instruction);
  bool check_memory(const Token& at, const Instruction& instruction);
  bool find_name(std::string_view name, uint64_t hash, NameKind& kind, uint32_t& index, bool& module_level);
  bool find_register(const Token& at, uint32_t& index);
  uint32_t add_register(std::string name, Type type);
  bool unknown_name(const Token& at, std::string_view what);

  Lexer lexer_;
  std::string name_;
  ParseOptions options_;
  Token token_;
  Module module_;
  TargetVersion target_;
  std::string error_;
  uint64_t initialised_bytes_ = 0;
  std::vector<Operand> scratch_;

  NameTable module_names_;
  std::unordered_map<uint64_t, std::vector<std::pair<std::string, Spelling>>> spellings_;
  std::vector<std::string> joined_names_;

  // --- the function being parsed
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  size_t depth_ = 0;  ///< scopes in use
  std::vector<RegisterRange> ranges_;
  std::vector<uint32_t> vector_registers_;  ///< pairs: first component register, count
  struct LabelUse {
    uint32_t line = 0, column = 0;
    bool defined = false;
    uint32_t alias = kNone;
    std::string_view name;
    uint32_t definition_line = 0;
  };
  std::vector<LabelUse> label_uses_;  ///< parallel to function_->labels
  std::vector<uint32_t> label_instructions_;
  uint32_t location_file_ = 0, location_line_ = 0, location_site_ = kNone;
  /// Places with a call site of their own, to chain nested inlining: (file, line, column) -> Function::call_sites.
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> location_sites_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint32_t>, uint32_t> call_site_index_;
  size_t expression_depth_ = 0;
};

}  // namespace ptxbench::ptx
