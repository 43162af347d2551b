#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/compiler.h"
#include "check/stored_checks.h"
#include "problem/dataset.h"

/// What the report of a check follows from, so that it can be found again.
namespace ptxbench::evaluation {

/// Of the programs that judge: this one, the runner, the libraries that candidates run against. With any change of
/// theirs every stored report is out of date, so no list of rules has to be kept.
Result<std::string> judges_digest();

/// Of a candidate that compiled. `settings` is everything else that was asked for, in words ("policy=eager").
Result<check::CheckKey> check_key(const candidate::Compilation& compilation,
                                  const std::vector<problem::Problem>& problems,
                                  const std::vector<std::string>& settings);

/// Of a kernel of a PTX file with its launch description.
Result<check::CheckKey> check_key(std::string_view ptx, std::string_view launch_description,
                                  const std::vector<std::string>& settings);

}  // namespace ptxbench::evaluation
