#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

/// Results of experiments as one table of turns, whatever they were read from.
namespace ptxbench::report {

enum class Known : std::uint8_t { no, yes, unknown };

/// What is not measured. Never shown as a number.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline bool is_known(double value) { return value == value; }

/// Texts by number, in the order of their first appearance.
class Names {
 public:
  std::uint32_t id(std::string_view text);
  const std::string& operator[](std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }
  const std::vector<std::string>& all() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

/// The label of a turn that produced a kernel with right numbers.
inline constexpr std::string_view kCorrect = "Correct";

struct TurnRow {
  std::uint32_t number = 0;  ///< from 0, as in the published data
  std::uint32_t label = 0;   ///< failure taxonomy, in Table::labels
  bool correct = false;
  Known passed = Known::unknown;  ///< with everything the experiment required
  Known target = Known::unknown;  ///< whether a target instruction executed
  double speedup = kUnknown;      ///< of a correct turn: the smallest of all its workloads
  double reasoning_tokens = kUnknown, tokens = kUnknown, cost = kUnknown;
  double model_seconds = kUnknown;
  double judge_seconds = kUnknown;  ///< wall-clock time of judging
  double host_seconds = kUnknown;   ///< that the evaluator worked on it, by the clock
  double cpu_seconds = kUnknown;    ///< processor time of the evaluator
  double gpu_seconds = kUnknown;
  std::vector<std::uint32_t> rules;  ///< of findings that are errors or warnings, each once, in Table::rules
};

enum class State : std::uint8_t { ended, running, failed };

/// Attributes are numbers of texts in the table's name lists.
struct TrajectoryRow {
  std::uint32_t run = 0;
  std::string name;
  std::uint32_t model = 0, arch = 0, problem = 0, workload = 0, language = 0, pack = 0;
  State state = State::ended;
  std::vector<TurnRow> turns;  ///< in order
  std::filesystem::path file;  ///< records with texts; empty where there are none
};

enum class RunKind : std::uint8_t { own, reference, published };

struct Run {
  std::string name;  ///< the last part of its path
  RunKind kind = RunKind::own;
  std::string path;               ///< of a published run: as the file spells it
  std::string workload_id, date;  ///< published runs only
  std::size_t planned = 0;        ///< trajectories of its plan; 0: not known
  std::size_t without_turns = 0;  ///< trajectories that are in no denominator
};

/// Something a reader of the figures must know.
struct Note {
  std::string text;
};

struct Pool {
  std::string name;
  std::vector<std::uint32_t> runs;
};

struct Table {
  Names models, archs, problems, workloads, languages, packs, labels, rules;
  std::vector<Run> runs;
  std::vector<TrajectoryRow> trajectories;  ///< those with at least one turn, run by run
  std::vector<Pool> pools;
  std::vector<Note> notes;

  Table();
  std::size_t turn_count() const;
  void note(std::string text) { notes.push_back({std::move(text)}); }
};

/// What the figures are told apart by.
enum class Dimension : std::uint8_t { model, arch, problem, workload, language, pack, run, pool };
std::string_view to_string(Dimension dimension);
Result<Dimension> dimension_of(std::string_view name);
/// Of all but `pool`.
const std::string& value_of(const Table& table, const TrajectoryRow& trajectory, Dimension dimension);

/// Trajectories with equal values.
struct Group {
  std::vector<std::string> values;          ///< one per dimension
  std::vector<std::uint32_t> trajectories;  ///< in the table's order
};
/// In the order of first appearance; pools in their own order. Grouped by pool, a trajectory can be in several groups
/// and one outside of all pools in none.
std::vector<Group> group_by(const Table& table, const std::vector<Dimension>& dimensions);

/// Keeps the trajectories whose value is one of those given for each dimension. A value that nothing has is an error.
Result<void> keep_where(Table& table, const std::map<Dimension, std::vector<std::string>>& wanted);

/// "NAME=run1,run2,...": names of runs, `*` standing for anything. A pattern without a match is an error.
Result<void> add_pool(Table& table, std::string_view description);

}  // namespace ptxbench::report
