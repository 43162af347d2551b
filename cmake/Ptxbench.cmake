# Helpers that keep every room's CMakeLists.txt to a few lines.
include(GoogleTest)

# Warnings are errors in our own code; foreign headers are included as SYSTEM.
function(ptxbench_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    -Wnon-virtual-dtor -Wold-style-cast -Werror -ffp-contract=off)
  if(PTXBENCH_SANITIZE)
    # Instrumented code misleads GCC's flow analysis; the release build has this warning.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()

# PTXBENCH_CUDA_INCLUDE: the folder with CUDA 13.0's headers, or nothing; then PTXBENCH_CUDA_FOUND says what was there.
function(ptxbench_find_cuda_headers)
  find_path(include cuda_runtime_api.h
    HINTS ${PTXBENCH_CUDA_HOME}/include $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
          ${PROJECT_SOURCE_DIR}/third_party/cuda/include ${PROJECT_SOURCE_DIR}/.deps/cuda/include
    PATHS /usr/local/cuda-13.0/include /usr/local/cuda/include NO_CACHE)
  set(version 0)
  if(include)
    file(STRINGS ${include}/cuda_runtime_api.h version_line REGEX "define CUDART_VERSION")
    string(REGEX MATCH "[0-9]+" version "${version_line}")
  endif()
  if(version EQUAL 13000)
    set(PTXBENCH_CUDA_INCLUDE ${include} PARENT_SCOPE)
  else()
    set(PTXBENCH_CUDA_FOUND "found '${include}', version ${version}" PARENT_SCOPE)
  endif()
endfunction()

# Sources that are listed but not written yet would stop the configuration of every other room: while
# PTXBENCH_ALLOW_MISSING_SOURCES is on they are left out with a warning.
function(ptxbench_existing_sources result)
  set(existing "")
  foreach(source ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source} OR IS_ABSOLUTE ${source} OR NOT PTXBENCH_ALLOW_MISSING_SOURCES)
      list(APPEND existing ${source})
    else()
      message(WARNING "missing source left out: ${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    endif()
  endforeach()
  if(NOT existing)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/no_sources_yet.cpp "")
    set(existing ${CMAKE_CURRENT_BINARY_DIR}/no_sources_yet.cpp)
  endif()
  set(${result} ${existing} PARENT_SCOPE)
endfunction()

# ptxbench_add_library(NAME base SOURCES a.cpp b.cpp DEPENDS ptxbench::ptx fmt::fmt)
# A room: library ptxbench_<NAME>, alias ptxbench::<NAME>. Headers are included as "<room>/<header>.h" from src/.
function(ptxbench_add_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  ptxbench_existing_sources(sources ${ARG_SOURCES})
  add_library(ptxbench_${ARG_NAME} STATIC ${sources})
  add_library(ptxbench::${ARG_NAME} ALIAS ptxbench_${ARG_NAME})
  target_include_directories(ptxbench_${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(ptxbench_${ARG_NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(dependency ${ARG_DEPENDS})
    if(PTXBENCH_ALLOW_MISSING_SOURCES AND dependency MATCHES "^ptxbench::" AND NOT TARGET ${dependency})
      message(WARNING "ptxbench_${ARG_NAME} needs ${dependency}, which does not exist yet")
    else()
      target_link_libraries(ptxbench_${ARG_NAME} PUBLIC ${dependency})
    endif()
  endforeach()
  ptxbench_compile_options(ptxbench_${ARG_NAME})
endfunction()

# ptxbench_add_test(NAME ptx_parser_test SOURCES parser_test.cpp DEPENDS ptxbench::ptx LABELS core)
# PROPERTIES: more properties of every test in it, such as FIXTURES_REQUIRED name.
function(ptxbench_add_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LABELS;PROPERTIES" ${ARGN})
  if(NOT PTXBENCH_BUILD_TESTS OR (PTXBENCH_CORE_ONLY AND NOT "core" IN_LIST ARG_LABELS))
    return()
  endif()
  foreach(room ${ARG_DEPENDS})
    if(room MATCHES "^ptxbench::" AND NOT TARGET ${room})
      # A misspelt room must not turn a suite off without a word.
      if(NOT PTXBENCH_CORE_ONLY AND NOT PTXBENCH_ALLOW_MISSING_SOURCES)
        message(FATAL_ERROR "test ${ARG_NAME} needs ${room}, which does not exist")
      endif()
      message(STATUS "test ${ARG_NAME} left out: no ${room} in this build")
      return()
    endif()
  endforeach()
  ptxbench_existing_sources(sources ${ARG_SOURCES})
  if(sources MATCHES "no_sources_yet")
    return()
  endif()
  add_executable(${ARG_NAME} ${sources})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  ptxbench_compile_options(${ARG_NAME})
  if("isa" IN_LIST ARG_LABELS)
    # Thousands of tiny cases: starting a process for each would cost more than they do. The program names what failed.
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
    return()
  endif()
  # The script that gtest_discover_tests generates takes a list apart: several labels are written as one, and a pattern
  # (ctest -L hazards) finds any of them.
  string(JOIN "," labels ${ARG_LABELS})
  gtest_discover_tests(${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${labels}" ${ARG_PROPERTIES})
endfunction()
