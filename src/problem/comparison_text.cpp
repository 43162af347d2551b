#include <algorithm>
#include <cmath>

#include "problem/comparison.h"

namespace ptxbench::problem {
namespace {

using base::Json;

/// Where the wrong cells are, in a line: all, whole rows or columns of cells, or the first few.
std::string where(const TensorComparison& comparison) {
  const auto& cells = comparison.wrong_cells;
  if (cells.empty()) return "";
  const std::int64_t size = comparison.cell_size;
  std::int64_t row_begin = cells[0].row, row_end = 0, column_begin = cells[0].column, column_end = 0;
  for (const ErrorCell& cell : cells) {
    row_begin = std::min(row_begin, cell.row);
    row_end = std::max(row_end, std::min(cell.row + size, comparison.rows));
    column_begin = std::min(column_begin, cell.column);
    column_end = std::max(column_end, std::min(cell.column + size, comparison.columns));
  }
  std::string text = fmt::format("{} of {} {}x{} cells have wrong elements, within rows {}-{}, columns {}-{}",
                                 comparison.wrong_cell_count, comparison.cell_count, size, size, row_begin, row_end - 1,
                                 column_begin, column_end - 1);
  const std::int64_t box = ((row_end - row_begin + size - 1) / size) * ((column_end - column_begin + size - 1) / size);
  if (box > 0 && static_cast<std::uint64_t>(box) > comparison.wrong_cell_count) {
    text += ": at";
    for (std::size_t i = 0; i < std::min<std::size_t>(cells.size(), 6); ++i) {
      text += fmt::format(" ({}, {})", cells[i].row, cells[i].column);
    }
    if (cells.size() > 6) text += " ...";
  }
  return text;
}

Json element_json(const std::optional<ElementError>& element) {
  if (!element) return nullptr;
  // JSON has no NaN; the data format writes them as strings.
  const auto number = [](double value) -> Json {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
  };
  return Json{{"row", element->row},
              {"column", element->column},
              {"expected", number(element->expected)},
              {"got", number(element->got)}};
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(std::isnan(value) ? "NaN" : "Infinity"); }

}  // namespace

std::string describe(const TensorComparison& comparison) {
  std::string text = fmt::format("{} [{} x {}] {}: {}", comparison.name, comparison.rows, comparison.columns,
                                 to_string(comparison.dtype), to_string(comparison.verdict));
  if (comparison.verdict == Verdict::passed && comparison.absolute) {
    text += fmt::format(" (largest error {:.3g}, rms {:.3g})", comparison.max_absolute_error,
                        comparison.rms_absolute_error);
  } else if (comparison.verdict == Verdict::passed) {
    text += fmt::format(" (relative L2 {:.3g}, worst row {:.3g}, gain {:+.2g})", comparison.tensor_l2,
                        comparison.worst_row_l2, comparison.gain - 1);
  }
  if (comparison.rule == Tolerance::reference) text += ", by the reference's rule";
  text += '\n';
  for (const std::string& failure : comparison.failures) text += fmt::format("  {}\n", failure);
  if (!comparison.note.empty()) text += fmt::format("  {}\n", comparison.note);
  if (comparison.verdict != Verdict::failed) return text;
  text += fmt::format("  {} of {} compared elements are wrong\n", comparison.wrong, comparison.known);
  if (comparison.first_wrong) {
    const ElementError& first = *comparison.first_wrong;
    text += fmt::format("  first wrong element: [{}, {}] is {:.6g}, should be {:.6g}\n", first.row, first.column,
                        first.got, first.expected);
  } else if (comparison.worst_element_at) {
    const ElementError& worst = *comparison.worst_element_at;
    text += fmt::format("  worst element: [{}, {}] is {:.6g}, should be {:.6g}\n", worst.row, worst.column, worst.got,
                        worst.expected);
  }
  if (const std::string place = where(comparison); !place.empty()) text += fmt::format("  {}\n", place);
  for (std::size_t i = 0; i < std::min<std::size_t>(comparison.hypotheses.size(), 2); ++i) {
    text += fmt::format("  it looks like this: {}\n", comparison.hypotheses[i].text);
  }
  return text;
}

Json to_json(const TensorComparison& comparison) {
  Json cells = Json::array();
  for (const ErrorCell& cell : comparison.wrong_cells) {
    cells.push_back({{"row", cell.row},
                     {"column", cell.column},
                     {"wrong", cell.wrong},
                     {"unwritten", cell.unwritten},
                     {"known", cell.known}});
  }
  Json hypotheses = Json::array();
  for (const Hypothesis& hypothesis : comparison.hypotheses) {
    hypotheses.push_back(
        {{"pattern", hypothesis.pattern}, {"confidence", hypothesis.confidence}, {"text", hypothesis.text}});
  }
  Json limits = Json::object();
  for (const LimitedValue& one : comparison.limits) {
    limits[std::string(one.name)] = {{"value", finite(one.value)}, {"limit", one.limit}};
  }
  return Json{{"name", comparison.name},
              {"dtype", to_string(comparison.dtype)},
              {"rows", comparison.rows},
              {"columns", comparison.columns},
              {"verdict", to_string(comparison.verdict)},
              {"rule", to_string(comparison.rule)},
              {"failures", comparison.failures},
              {"note", comparison.note},
              {"elements",
               {{"known", comparison.known},
                {"unknown", comparison.unknown},
                {"wrong", comparison.wrong},
                {"unwritten", comparison.unwritten},
                {"nan", comparison.nan},
                {"infinite", comparison.infinite},
                {"not_infinite", comparison.not_infinite},
                {"not_nan", comparison.not_nan}}},
              {"tensor_l2", finite(comparison.tensor_l2)},
              {"worst_block_l2", finite(comparison.worst_block_l2)},
              {"worst_block_row", comparison.worst_block_row},
              {"worst_row_l2", finite(comparison.worst_row_l2)},
              {"worst_row", comparison.worst_row},
              {"worst_element", finite(comparison.worst_element)},
              {"worst_element_at", element_json(comparison.worst_element_at)},
              {"gain", finite(comparison.gain)},
              {"max_absolute_error", finite(comparison.max_absolute_error)},
              {"rms_absolute_error", finite(comparison.rms_absolute_error)},
              {"limits", limits},
              {"compat",
               {{"passed", comparison.compat.passed},
                {"bad_elements", comparison.compat.bad_elements},
                {"max_absolute_error", finite(comparison.compat.max_absolute_error)},
                {"max_relative_error", finite(comparison.compat.max_relative_error)}}},
              {"first_wrong", element_json(comparison.first_wrong)},
              {"cell_size", comparison.cell_size},
              {"cell_count", comparison.cell_count},
              {"wrong_cell_count", comparison.wrong_cell_count},
              {"wrong_cells", cells},
              {"hypotheses", hypotheses}};
}

}  // namespace ptxbench::problem
