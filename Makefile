# The two commands of a fresh machine are `make demo` and `make test`; each target does its own
# set-up. Everything else is CMake's: see CMakePresets.json.

WERROR ?= 0
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
configure_flags := -DFOLIO_WERROR=$(if $(filter 1 ON on yes,$(WERROR)),ON,OFF)

.DEFAULT_GOAL := help
.PHONY: help demo test build bench test-asan docs fuzz format format-check lint clean bootstrap bootstrap-lint

help:
	@echo 'make demo    build, train a small GPT for about a minute, show what it writes'
	@echo 'make test    build and run every test'
	@echo 'make build   leave the program at build/release/folio'
	@echo 'make bench   build and run the benchmarks'
	@echo 'make test-asan  the tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make fuzz    look for inputs that break the tokenizers, FUZZ_SECONDS=60 with each target'
	@echo 'make docs    put the numbers and figures of the program into docs/'
	@echo 'make format  format the sources (format-check: only look)'
	@echo 'make lint    run clang-tidy'
	@echo 'make clean   remove build/'
	@echo 'Variables: WERROR=1 makes warnings errors, JOBS=N sets the compilations at a time.'

bootstrap:
	@scripts/bootstrap.sh build

bootstrap-lint:
	@scripts/bootstrap.sh lint

build: bootstrap
	@cmake --preset release $(configure_flags) --log-level=WARNING
	@cmake --build --preset release -j $(JOBS)

demo: build
	@scripts/demo.sh

test: build
	@ctest --preset release

bench: build
	@scripts/bench.sh

test-asan: bootstrap
	@cmake --preset asan $(configure_flags) --log-level=WARNING
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan

docs: build
	@cp -r build/release/docs/attention.md build/release/docs/figures docs/

fuzz:
	@scripts/bootstrap.sh fuzz
	@cmake --preset fuzz $(configure_flags) --log-level=WARNING
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh $(FUZZ_SECONDS)

format: bootstrap-lint
	@scripts/format.sh

format-check: bootstrap-lint
	@scripts/format.sh --check

lint: bootstrap-lint build
	@scripts/lint.sh

clean:
	@rm -rf build
