#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbench::base {

/// Pieces between separators; "a,,b" gives three, "" gives one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Lines without their "\n" or "\r\n"; a final newline adds no empty line.
std::vector<std::string_view> split_lines(std::string_view text);
/// Without ASCII white space at both ends.
std::string_view trim(std::string_view text);
/// ASCII only.
std::string to_lower(std::string_view text);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
/// Decimal digits only, the whole text; nothing on overflow or any other character.
std::optional<std::uint64_t> parse_u64(std::string_view text);

/// Levenshtein distance; as soon as it must exceed `cap` the answer is `cap + 1`.
std::size_t edit_distance(std::string_view left, std::string_view right, std::size_t cap = 64);
/// The candidate nearest to `name` (first among equals), if near enough to be a plausible misspelling:
/// at most a third of the longer name's length, and never more than 4 edits.
std::optional<std::string_view> nearest(std::string_view name, std::span<const std::string_view> candidates);
std::optional<std::string_view> nearest(std::string_view name, std::span<const std::string> candidates);
/// "; did you mean 'x'?" or "", to end an error message with.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// How reports call a file that a candidate was compiled from: by its bare name, whatever folder the compiler worked in
/// ("/tmp/ptxbench-compile-x7Gh2k/lean/kernel.cu" is "kernel.cu"). Other paths stay as they are.
std::string candidate_file_name(std::string_view path);

/// "512 B", "1.5 KiB", "12.0 GiB".
std::string format_bytes(std::uint64_t bytes);
/// "250 ns", "1.23 ms", "4.56 s", "2 min 5 s".
std::string format_seconds(double seconds);

/// At most `max_bytes` of `text`, cut in the middle with a line that says how much is missing; whole UTF-8 characters.
std::string shorten_middle(std::string_view text, std::size_t max_bytes);

}  // namespace ptxbench::base
