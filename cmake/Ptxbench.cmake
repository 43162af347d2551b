# Helpers that keep every room's CMakeLists.txt to a few lines.
include(GoogleTest)

# Warnings are errors in our own code; foreign headers are included as SYSTEM.
function(ptxbench_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    -Wnon-virtual-dtor -Wold-style-cast -Werror -ffp-contract=off)
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
  target_link_libraries(ptxbench_${ARG_NAME} PUBLIC ${ARG_DEPENDS})
  ptxbench_compile_options(ptxbench_${ARG_NAME})
endfunction()

# ptxbench_add_test(NAME ptx_parser_test SOURCES parser_test.cpp DEPENDS ptxbench::ptx LABELS core)
function(ptxbench_add_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT PTXBENCH_BUILD_TESTS)
    return()
  endif()
  ptxbench_existing_sources(sources ${ARG_SOURCES})
  if(sources MATCHES "no_sources_yet")
    return()
  endif()
  add_executable(${ARG_NAME} ${sources})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  ptxbench_compile_options(${ARG_NAME})
  gtest_discover_tests(${ARG_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${ARG_LABELS}")
endfunction()
