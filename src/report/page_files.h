#pragma once

#include <string>

/// The files of page/ and the charting library, as the build embedded them.
namespace ptxbench::report::files {

std::string page_html();
std::string page_css();
std::string script_base();
std::string script_data();
std::string script_stats();
std::string script_charts();
std::string script_sections();
std::string script_trajectory();
std::string script_app();
std::string script_charting();
std::string style_charting();
std::string license_charting();

}  // namespace ptxbench::report::files
