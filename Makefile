# The two commands of a fresh machine are `make demo` and `make test`; each target does its own
# set-up. Everything else is CMake's: see CMakePresets.json.

WERROR ?= 0
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
TORTURE_KILLS ?= 1000
TORTURE_SECONDS ?= 1800
TORTURE_SEED ?= 0
SOAK_MINUTES ?= 30
PREFIX ?= /usr/local
configure_flags := -DFOLIO_WERROR=$(if $(filter 1 ON on yes,$(WERROR)),ON,OFF) --log-level=WARNING

.DEFAULT_GOAL := help
.PHONY: help demo test build build-asan install packages site wheel bench test-asan test-tsan docs fuzz fuzz-coverage torture soak web page \
  test-web test-page test-python test-cluster test-arm format format-check lint lint-changed clean bootstrap bootstrap-checks configure configure-asan \
  configure-tsan configure-lint

help:
	@echo 'make demo    build, train a small GPT for about a minute, show what it writes'
	@echo 'make test    build and run every test'
	@echo 'make build   leave the program at build/release/folio'
	@echo 'make install  put program, library and documents below PREFIX=/usr/local'
	@echo 'make packages  a tar file that runs wherever it is unpacked, and .deb files, in build/packages'
	@echo 'make wheel   the Python package with all that it needs, in build/packages'
	@echo 'make site    the documents as a site, with references of commands, C and C++, in build/site'
	@echo 'make bench   build and run the benchmarks'
	@echo 'make test-asan  the tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make test-tsan  the tests of threads, training and generation under ThreadSanitizer'
	@echo 'make web     make web/dist of web/src, the page of folio serve; needs node and npm'
	@echo 'make test-web  the tests of the page in a browser; skipped without node and chromium'
	@echo 'make page    the page that needs no server, in build/page: rooms as WebAssembly; as root, with debootstrap, node'
	@echo 'make test-page  the same, tried in a browser beside the program'
	@echo 'make test-python  the Python package in every Python at hand; skipped where PyPI is not reached'
	@echo 'make test-cluster  mpirun and Slurm over a network made here: links cut, ranks killed; as root, 15 minutes'
	@echo 'make test-arm  tests of text, backend and model for 64-bit Arm, under emulation; as root, with debootstrap'
	@echo 'make fuzz    look for inputs that break tokenizers and readers, FUZZ_SECONDS=60 with each target'
	@echo 'make torture  kill, fail and cut the power of whatever writes: TORTURE_KILLS=1000, at most'
	@echo '              TORTURE_SECONDS=1800; TORTURE_SEED=N repeats (build/release/tests/torture/folio_torture --help)'
	@echo 'make soak    train and generate for SOAK_MINUTES=30: memory, file handles and threads stay level'
	@echo 'make fuzz-coverage  how much of each parser the inputs reach that fuzzing has found'
	@echo 'make docs    put the numbers and figures of the program into docs/ (needs the demo: trains it)'
	@echo 'make format  format the sources (format-check: only look)'
	@echo 'make lint    run clang-tidy (lint-changed: not on what it passed before)'
	@echo 'make clean   remove build/'
	@echo 'Variables: WERROR=1 makes warnings errors, JOBS=N sets the compilations at a time.'

bootstrap:
	@scripts/bootstrap.sh build

bootstrap-checks:
	@scripts/bootstrap.sh checks

configure: bootstrap
	@cmake --preset release $(configure_flags)

configure-asan: bootstrap-checks
	@cmake --preset asan $(configure_flags)

configure-tsan: bootstrap-checks
	@cmake --preset tsan $(configure_flags)

configure-lint: bootstrap-checks
	@cmake --preset lint $(configure_flags)

build: configure
	@cmake --build --preset program -j $(JOBS)

demo: build
	@scripts/demo.sh

test: configure
	@cmake --build --preset release -j $(JOBS)
	@scripts/test.sh release

install: build
	@cmake --install build/release --prefix $(PREFIX)

packages:
	@scripts/bootstrap.sh build
	@scripts/bootstrap.sh packages
	@JOBS=$(JOBS) WERROR=$(WERROR) scripts/packages.sh

site: build
	@scripts/bootstrap.sh site
	@scripts/site.sh build/release/folio

wheel:
	@scripts/bootstrap.sh build
	@JOBS=$(JOBS) scripts/wheel.sh repair

test-python:
	@scripts/bootstrap.sh build
	@JOBS=$(JOBS) WERROR=$(WERROR) scripts/test_python.sh

bench: build
	@scripts/bench.sh

build-asan: configure-asan
	@cmake --build --preset asan -j $(JOBS)

test-asan: build-asan
	@scripts/test.sh asan

test-tsan: configure-tsan
	@cmake --build --preset tsan -j $(JOBS)
	@scripts/test.sh tsan

web:
	@npm ci --prefix web --silent --no-audit --no-fund
	@npm run --prefix web --silent check
	@npm run --prefix web --silent build

test-web: build
	@scripts/test_web.sh

page:
	@JOBS=$(JOBS) scripts/page.sh

test-page: build
	@JOBS=$(JOBS) scripts/page.sh test

test-cluster: configure
	@cmake --build --preset cluster -j $(JOBS)
	@scripts/test_cluster.sh

test-arm:
	@JOBS=$(JOBS) scripts/test_arm.sh

docs: configure
	@cmake --build --preset docs -j $(JOBS)
	@cp -r build/release/docs/attention.md build/release/docs/figures docs/
	@scripts/demo_figures.sh

fuzz: configure-asan
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh $(FUZZ_SECONDS)

torture: configure
	@cmake --build --preset torture -j $(JOBS)
	@build/release/tests/torture/folio_torture --kills $(TORTURE_KILLS) --seconds $(TORTURE_SECONDS) --seed $(TORTURE_SEED) --json

soak: configure
	@cmake --build --preset torture -j $(JOBS)
	@build/release/tests/soak/folio_soak --minutes $(SOAK_MINUTES) --json

fuzz-coverage: bootstrap-checks
	@cmake --preset coverage $(configure_flags)
	@cmake --build --preset coverage -j $(JOBS)
	@scripts/fuzz_coverage.sh

format: bootstrap-checks
	@scripts/format.sh

format-check: bootstrap-checks
	@scripts/format.sh --check

lint: configure-lint
	@scripts/lint.sh

lint-changed: configure-lint
	@scripts/lint.sh --changed

clean:
	@rm -rf build
