#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ptxbench::candidate {

struct SourcePosition {
  std::string file;  ///< as the compiler names it; the candidate itself is always "kernel.cu"
  int line = 0;      ///< from 1; 0 when unknown
  int column = 0;    ///< from 1; 0 when unknown
};

enum class MessageLevel { error, warning, info };

/// One message of nvcc's front end, the host compiler, ptxas or the linker.
struct CompilerMessage {
  MessageLevel level = MessageLevel::error;
  std::string tool;  ///< "nvcc", "gcc", "ptxas", "ld"
  /// "compile.error", "compile.warning", "compile.ptx_error", "compile.link_error", and for ptxas's advisories
  /// "wgmma.serialized", "wgmma.injected_wait", "wgmma.injected_arrive", "launch.setmaxnreg_ignored",
  /// "compile.spill", "compile.advisory".
  std::string rule;
  std::string code;  ///< "C7510", "177-D" or empty
  SourcePosition where;
  /// For a message about PTX: where the inlined function that holds the position was called from, outermost last.
  std::vector<SourcePosition> inlined_from;
  int ptx_line = 0;
  std::string excerpt;   ///< the PTX or source line meant, when known
  std::string function;  ///< mangled name, when the message names one
  std::string text;      ///< without position and code
  std::string hint;      ///< of an error of ptxas: what this project's own PTX parser says about that line
};

/// What ptxas says about one kernel or non-inlined device function.
struct KernelReport {
  std::string name;  ///< mangled
  std::string demangled;
  bool entry = false;  ///< a kernel
  int registers = 0;
  int barriers = 0;
  std::int64_t static_shared_bytes = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
};

/// How a compilation ended. Only `succeeded` gives an artifact.
enum class CompileStatus {
  succeeded,
  failed,         ///< the source is wrong
  unsupported,    ///< the source may be right, but needs something that is not provided here
  timed_out,      ///< over the wall or processor time limit
  out_of_memory,  ///< over the memory limit
};
std::string_view to_string(CompileStatus status);

enum class HeaderSet { lean, upstream };

struct CompileReport {
  CompileStatus status = CompileStatus::failed;
  HeaderSet headers = HeaderSet::lean;
  std::string header_note;  ///< why upstream's headers were used, or why they could not be
  double seconds = 0;       ///< wall time of the compilation, also when it comes from the cache now
  bool cached = false;
  std::string compiler;  ///< "nvcc 13.0.88"
  std::vector<std::string> flags;
  std::vector<KernelReport> kernels;
  std::vector<CompilerMessage> messages;
  std::string log;  ///< the tools' own text, shortened in the middle when huge

  bool succeeded() const { return status == CompileStatus::succeeded; }
  /// The messages that a reader needs first: errors if there are any, else advisories and warnings.
  std::string summary(std::size_t max_messages = 8) const;
};

/// Maps lines of compiler-made PTX to the source through its .loc and .file directives.
class PtxLineMap {
 public:
  explicit PtxLineMap(std::string_view ptx);
  struct Place {
    SourcePosition where;
    std::vector<SourcePosition> inlined_from;
    std::string text;  ///< the PTX line itself
  };
  /// Nothing outside the text or before the first .loc of its function.
  std::optional<Place> find(int ptx_line) const;

 private:
  struct Location {
    int file = 0, line = 0, column = 0;
    std::vector<SourcePosition> inlined_from;
    std::vector<int> inlined_files;
  };
  std::vector<std::string> lines_;
  std::vector<std::string> files_;
  std::vector<int> location_of_line_;  ///< index into locations_ or -1
  std::vector<Location> locations_;
};

/// Reads the combined output of nvcc and its tools. `ptx` may be empty; it gives ptxas's messages their source lines.
void parse_compiler_output(std::string_view output, std::string_view ptx, CompileReport& report);
/// Gives ptxas's errors the hint of this project's own PTX parser, which names what was expected at the line.
void explain_ptx_errors(std::string_view ptx, CompileReport& report);
/// Reads the linker's output.
void parse_linker_output(std::string_view output, CompileReport& report);

base::Json to_json(const CompileReport& report);
Result<CompileReport> compile_report_from_json(const base::Json& json, std::string_view what);

}  // namespace ptxbench::candidate
