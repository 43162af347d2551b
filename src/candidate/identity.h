#pragma once

#include <string>
#include <string_view>

#include "candidate/artifact.h"

namespace ptxbench::candidate {

/// What an artifact does, told apart from where its lines stand: sources that differ in comments and white space only
/// have equal behaviour, and equal places too if no line has moved.
struct Identity {
  /// Of the PTX as the parser reads it, without debug information (of its bytes if it does not parse), and of the
  /// sections, relocations and symbols of the host object that are loaded, without the embedded device code (which is
  /// that PTX).
  std::string behaviour;
  /// Of the lines and source positions of everything in the PTX, the folder of the compilation left out.
  std::string places;
};

/// Of PTX alone.
Identity identity_of_ptx(std::string_view ptx);
/// Of PTX and the image of the host object.
Result<Identity> identity_of(std::string_view ptx, std::string_view object);
Result<Identity> identity_of(const Artifact& artifact);

}  // namespace ptxbench::candidate
