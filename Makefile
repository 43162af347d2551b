# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`.
SHELL := /bin/bash
ROOT := $(CURDIR)
# Lets a second checkout share the compiler cache.
export CCACHE_BASEDIR := $(ROOT)
export CCACHE_NOHASHDIR := 1
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup setup-browser build demo test test-full bundle format check fuzz foreign-model clean distclean

help:
	@echo 'make demo       install what is missing, build, and watch kernels being judged on the emulated GPU'
	@echo 'make test       install what is missing, build, and run the tests (make test-full: also the long ones)'
	@echo 'make build      the program, at build/ptxbench'
	@echo 'make bundle     a folder and tar file with the program, its libraries and tests, for another machine'
	@echo 'make format     format the sources;  make check: formatting and clang-tidy, everything'
	@echo 'make fuzz       the fuzzers, under sanitizers, FUZZ_SECONDS (600) each'
	@echo 'make foreign-model  a model server from elsewhere drives trajectories (builds it from source, some minutes)'
	@echo 'make clean      remove build folders;  make distclean: also .deps'

setup:
	@scripts/setup.sh

setup-browser:
	@scripts/setup_browser.sh

build/build.ninja: CMakePresets.json | setup
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@touch $@

build: setup build/build.ninja
	@cmake --build build --target ptxbench

demo: build
	@build/ptxbench quickstart

test: setup setup-browser
	@scripts/test.sh

test-full: setup setup-browser
	@scripts/test.sh --full

bundle: setup build/build.ninja
	@scripts/bundle.sh

format: setup
	@scripts/format.sh

check: setup build/build.ninja
	@scripts/format.sh --check
	@scripts/tidy.py --build build

fuzz: setup
	@scripts/fuzz.sh $(FUZZ_SECONDS)

foreign-model: build
	@scripts/foreign_model.sh

clean:
	rm -rf build build-asan-ubsan build-fuzz build-tidy

distclean: clean
	rm -rf .deps
