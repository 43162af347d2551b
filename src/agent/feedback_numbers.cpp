#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "agent/feedback_parts.h"
#include "problem/triage.h"

namespace ptxbench::agent::parts {
namespace {

using problem::ErrorCell;
using problem::TensorComparison;

/// Where the errors are: everywhere, in the rows or columns of some tiles, at the edge, or in a box.
std::string where(const TensorComparison& output) {
  const auto& cells = output.wrong_cells;
  if (cells.empty() || output.cell_size <= 0) return "";
  const std::int64_t size = output.cell_size;
  std::set<std::int64_t> rows, columns;
  double wrong = 0, known = 0;
  for (const ErrorCell& cell : cells) {
    rows.insert(cell.row);
    columns.insert(cell.column);
    wrong += static_cast<double>(cell.wrong);
    known += static_cast<double>(cell.known);
  }
  const std::int64_t cell_rows = (output.rows + size - 1) / size, cell_columns = (output.columns + size - 1) / size;
  const auto range = [&](const std::set<std::int64_t>& of, std::int64_t extent) {
    std::string text;
    std::int64_t begin = -1, end = -1;
    const auto flush = [&] {
      if (begin >= 0) text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", begin, std::min(end, extent) - 1);
    };
    for (const std::int64_t at : of) {
      if (at != end) {
        flush();
        begin = at;
      }
      end = at + size;
    }
    flush();
    return text;
  };
  const bool all_rows = static_cast<std::int64_t>(rows.size()) == cell_rows;
  const bool all_columns = static_cast<std::int64_t>(columns.size()) == cell_columns;
  const bool is_box = rows.size() * columns.size() == output.wrong_cell_count;
  std::string text;
  if (output.wrong_cell_count == output.cell_count) {
    text = "in all parts of the tensor";
  } else if (is_box && all_columns) {
    text = fmt::format("only in rows {}, all columns{}", range(rows, output.rows),
                       *rows.rbegin() + size >= output.rows && rows.size() * 2 <= static_cast<std::size_t>(cell_rows)
                           ? ": the end of the rows, so look at the last tile and its bounds"
                           : "");
  } else if (is_box && all_rows) {
    text = fmt::format(
        "only in columns {}, all rows{}", range(columns, output.columns),
        *columns.rbegin() + size >= output.columns && columns.size() * 2 <= static_cast<std::size_t>(cell_columns)
            ? ": the end of the columns, so look at the last tile and its bounds"
            : "");
  } else if (is_box) {
    text = fmt::format("only in rows {} and columns {}", range(rows, output.rows), range(columns, output.columns));
  } else {
    text = fmt::format("in {} of {} cells of {}x{}, scattered over rows {} and columns {}", output.wrong_cell_count,
                       output.cell_count, size, size, range(rows, output.rows), range(columns, output.columns));
  }
  if (known > 0) {
    const double share = wrong / known;
    text += share > 0.98 ? "; there every element is wrong"
                         : fmt::format("; there {:.0f} % of the elements are wrong", 100 * share);
  }
  return text;
}

/// The cells as a map, where it is small enough to be read.
std::string map_of(const TensorComparison& output) {
  if (output.cell_size <= 0 || output.wrong_cells.empty()) return "";
  const std::int64_t size = output.cell_size;
  const std::int64_t rows = (output.rows + size - 1) / size, columns = (output.columns + size - 1) / size;
  if (rows < 1 || columns < 1 || rows > 24 || columns > 48 || output.wrong_cell_count == output.cell_count) return "";
  std::map<std::pair<std::int64_t, std::int64_t>, char> marks;
  for (const ErrorCell& cell : output.wrong_cells) {
    marks[{cell.row / size, cell.column / size}] = cell.unwritten == cell.known ? 'u'
                                                   : cell.wrong == cell.known   ? '#'
                                                                                : '+';
  }
  std::string text = fmt::format("  map of {}x{} cells (# all wrong, + some, u unwritten, . right):\n", size, size);
  for (std::int64_t row = 0; row < rows; ++row) {
    text += "    ";
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto mark = marks.find({row, column});
      text += mark == marks.end() ? '.' : mark->second;
    }
    text += '\n';
  }
  return text;
}

std::string number_text(double value) { return std::isnan(value) ? "NaN" : fmt::format("{:.6g}", value); }

/// What several outputs together say that none says alone.
std::string across(const evaluation::Run& run) {
  bool lse_right = false, lse_wrong = false, o_right = false, o_wrong = false;
  for (const TensorComparison& output : run.outputs) {
    const bool right = output.verdict == problem::Verdict::passed, wrong = output.verdict == problem::Verdict::failed;
    if (output.name == "LSE" || output.name == "lse") (right ? lse_right : lse_wrong) = right || wrong;
    if (output.name == "O" || output.name == "output") (right ? o_right : o_wrong) = right || wrong;
  }
  if (lse_right && o_wrong)
    return "LSE is right, so scores, scale, mask, running maximum and row sum are right: the fault is in P V, in the "
           "rescaling of O when the maximum grows, or in how O is stored";
  if (lse_wrong && o_right)
    return "O is right, so scores and sums are right: only how LSE is formed or stored is wrong";
  return "";
}

}  // namespace

Part numbers(const Evidence& evidence) {
  Part part;
  const evaluation::Evaluation& evaluation = evidence.evaluation;
  for (const evaluation::Run& run : evaluation.runs) {
    if (run.execute != evaluation::Status::passed || run.correctness != evaluation::Status::failed) continue;
    const std::string across_outputs = across(run);
    for (const TensorComparison& output : run.outputs) {
      if (output.verdict != problem::Verdict::failed) continue;
      FeedbackSection section;
      section.name = fmt::format("numbers of {}", output.name);
      const std::uint64_t written_wrong = output.wrong - std::min(output.wrong, output.unwritten);
      std::string head = fmt::format(
          "Output {} [{} x {}] at {}: {} of {} compared elements are wrong ({:.3g} %)", output.name, output.rows,
          output.columns, axes_text(run.axes), output.wrong, output.known,
          output.known == 0 ? 0.0 : 100.0 * static_cast<double>(output.wrong) / static_cast<double>(output.known));
      if (output.unwritten > 0) head += fmt::format(", {} of them never written", output.unwritten);
      if (output.nan + output.infinite > 0) head += fmt::format(", {} NaN, {} infinite", output.nan, output.infinite);
      head += '\n';
      if (const std::string place = where(output); !place.empty()) head += fmt::format("  where: {}\n", place);
      std::string_view pattern;
      std::string looks;
      std::size_t shown = 0;
      const std::size_t most = evidence.level == FeedbackLevel::rich ? 4 : 2;
      for (const problem::Hypothesis& one : output.hypotheses) {
        if (one.pattern == "unwritten_region" || one.confidence < 0.3 || shown == most) continue;
        if (pattern.empty() && one.confidence >= 0.5) pattern = one.pattern;
        looks += fmt::format("  looks like {}: {} (explains {:.0f} % of the wrong elements looked at)\n", one.pattern,
                             one.text, 100 * one.confidence);
        ++shown;
      }
      if (looks.empty() && written_wrong > 0)
        looks =
            "  No known pattern explains the numbers (not a scale, transposition, permutation, swizzle, missing or "
            "repeated "
            "part): take the first wrong element and follow its index back through store, accumulator and operands.\n";
      std::string fix;
      if (!pattern.empty()) fix = problem::remedy_for(pattern);
      if (!across_outputs.empty()) fix = fix.empty() ? across_outputs : fix;
      section.brief = head + (looks.empty() ? "" : looks);
      section.text = head;
      // What was never written is told with its place already.
      if (output.first_wrong && written_wrong > 0) {
        const auto& first = *output.first_wrong;
        section.text += fmt::format("  first wrong element: [{}, {}] is {}, should be {}\n", first.row, first.column,
                                    number_text(first.got), number_text(first.expected));
      }
      if (output.worst_element_at && evidence.level == FeedbackLevel::rich) {
        const auto& worst = *output.worst_element_at;
        section.text += fmt::format("  worst element: [{}, {}] is {}, should be {}\n", worst.row, worst.column,
                                    number_text(worst.got), number_text(worst.expected));
      }
      section.text += looks;
      if (evidence.level == FeedbackLevel::rich) section.text += map_of(output);
      if (!across_outputs.empty()) section.text += fmt::format("  {}\n", across_outputs);
      if (!pattern.empty()) section.text += fmt::format("  fix: {}\n", problem::remedy_for(pattern));
      if (evidence.level == FeedbackLevel::rich || (pattern.empty() && written_wrong > 0)) {
        const std::size_t told = evidence.level == FeedbackLevel::rich ? output.failures.size() : 1;
        for (std::size_t i = 0; i < std::min(told, output.failures.size()); ++i)
          section.text += fmt::format("  {}\n", output.failures[i]);
      }
      if (evidence.level == FeedbackLevel::terse) section.text = section.brief;
      if (part.first.empty()) {
        part.first = fix.empty() ? fmt::format("find out why {} is wrong {}", output.name, where(output))
                                 : fmt::format("{} ({}{})", fix, output.name,
                                               pattern.empty() ? " is wrong" : fmt::format(" looks like {}", pattern));
      }
      part.sections.push_back(std::move(section));
    }
    break;  // another seed says the same
  }
  return part;
}

}  // namespace ptxbench::agent::parts
