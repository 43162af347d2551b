#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "problem/definition.h"

namespace ptxbench::problem {

/// A definition with a workload and all that follows from both.
struct Problem {
  Definition definition;
  Workload workload;
  AxisValues axes;
  std::vector<Shape> input_shapes;   ///< as definition.inputs
  std::vector<Shape> output_shapes;  ///< as definition.outputs
  std::uint64_t tensor_bytes = 0;    ///< of all inputs and outputs together

  /// "gemm_n7168_k5120 M=256".
  std::string title() const;
  /// A file named by a safetensors source of this workload. It must lie below the workload's root or below one of the
  /// folders in $PTXBENCH_BLOB_ROOTS (colon-separated), as the path is written: a data set from elsewhere cannot make
  /// the program read other files. Symbolic links are followed; they are the doing of the folder's owner.
  Result<std::filesystem::path> blob_path(const SafetensorsInput& source) const;
};

/// Validates the workload against the definition: axes, input names, scalar and derived inputs. A batch axis keeps its
/// constant unless the workload is a check or ad hoc.
Result<Problem> make_problem(const Definition& definition, const Workload& workload);

/// Definitions and workloads of one or more folders in FlashInfer-Trace layout.
class Dataset {
 public:
  /// definitions/**/*.json, workloads/**/*.jsonl and checks/**/*.jsonl of each root, sorted; the first root is the
  /// primary one. A root that does not exist, or holds neither folder, is an error. Within a root, duplicate definition
  /// names and duplicate uuids are errors; across roots, equal duplicates are dropped and different ones are errors.
  /// With `broken`, files and lines that are errors are added there and left out, and the others are loaded.
  static Result<Dataset> load(const std::vector<std::filesystem::path>& roots, std::vector<Error>* broken = nullptr);

  const std::map<std::string, Definition>& definitions() const { return definitions_; }
  /// Names that workloads or checks give as their definition; not all need exist.
  std::vector<std::string> definitions_with_workloads() const;
  /// In file order; empty when there are none.
  const std::vector<Workload>& workloads(std::string_view definition) const;
  /// The small workloads for checking, in file order; empty when there are none.
  const std::vector<Workload>& checks(std::string_view definition) const;

  /// The error suggests the nearest name.
  Result<const Definition*> find_definition(std::string_view name) const;
  /// By uuid or a prefix of at least four characters that only one workload or check of the definition has.
  Result<const Workload*> find_workload(const Definition& definition, std::string_view uuid) const;
  /// The definition that has a workload or check with exactly this uuid.
  Result<std::pair<const Definition*, const Workload*>> find_workload(std::string_view uuid) const;
  /// The stored workload or check with these axes, or one made of them with random and derived inputs; `axes` are
  /// "M=256" assignments, also to batch axes.
  Result<Workload> workload_for_axes(const Definition& definition, const std::vector<std::string>& axes) const;
  /// Of the stored workloads and checks the one with the most elements in all its tensors, or the fewest.
  Result<const Workload*> largest_workload(const Definition& definition) const;
  Result<const Workload*> smallest_workload(const Definition& definition) const;
  /// What to judge on unless told otherwise: all checks, or the largest workload where there are none.
  Result<std::vector<const Workload*>> default_workloads(const Definition& definition) const;
  /// What somebody chose: one workload of these axes, or the stored ones with these uuids (or their beginnings), or,
  /// where neither is given, the default ones.
  Result<std::vector<Problem>> choose(std::string_view definition, const std::vector<std::string>& axes,
                                      const std::vector<std::string>& uuids) const;

 private:
  /// What is being read: names and uuids must be unique within one root.
  struct Root {
    std::filesystem::path path;
    bool primary = false;
    std::set<std::string> names;
    std::map<std::string, std::string> places_of_uuids;
  };
  Result<void> load_root(const std::filesystem::path& path, bool primary, std::vector<Error>* broken);
  Result<void> load_definition(const std::filesystem::path& file, Root& root);
  Result<void> load_workload(std::string_view line, const std::string& where, bool check, Root& root);
  std::map<std::string, Definition> definitions_;
  std::map<std::string, std::vector<Workload>, std::less<>> workloads_, checks_;
  std::map<std::string, std::string> definition_of_uuid_;
};

/// The roots to use: `given` if not empty, else $FIB_DATASET_PATH or $DATASET_ROOTS (colon-separated), else the shipped
/// problems/ folder.
Result<std::vector<std::filesystem::path>> dataset_roots(const std::vector<std::string>& given);

/// "M=256" as a pair.
Result<std::pair<std::string, std::int64_t>> parse_axis_assignment(std::string_view text);

}  // namespace ptxbench::problem
