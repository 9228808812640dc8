# Zoomies. `make help` lists what there is to do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL: # deps come before what needs them; go uses the cores by itself

# The one place of build flags. Every build, test and lint uses them, so that all share one
# build cache; -trimpath is left out for the same reason. The tags keep the Podman bindings
# free of C; without version control stamps a build in a work tree is the same as elsewhere.
export GOFLAGS := -buildvcs=false -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs
export CGO_ENABLED := 0

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/tools/golangci-lint-$(GOLANGCI_VERSION)-$(shell go env GOVERSION)

FUZZTIME ?= 20s
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TEST ?= ./...

##@ First steps

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: deps build ## Watch jobs run in real containers, against a simulated GitHub
	@bin/zoomies demo

.PHONY: test
test: deps contract build bin/podman-daemon.tar bin/apidiff ## Run every test, the end-to-end ones with Podman too
	go test -timeout 20m $(TEST)

.PHONY: test-long
RUNS ?= 10000
test-long: ## Rent and give back machines RUNS (10000) times while everything goes wrong
	ZOOMIES_RUNS=$(RUNS) go test -count=1 -timeout 4h -run TestAnyInterleaving -v ./controller/machines

##@ Work on the code

.PHONY: deps
deps: ## Install what is missing from Debian's packages (Podman and what it needs)
	@tools/deps run

.PHONY: agent
agent: ## Build the small agent that machines are ignited with, and say how large it is
	go build -ldflags='-s -w -X main.version=$(VERSION)' -o bin/zoomies-agent ./cmd/zoomies-agent
	@printf 'bin/zoomies-agent: %d bytes, %d with gzip -9\n' $$(wc -c < bin/zoomies-agent) $$(gzip -9nc bin/zoomies-agent | wc -c)

.PHONY: build
build: agent ## Build everything into bin/
	go build -ldflags='-X main.version=$(VERSION)' -o bin/zoomies ./cmd/zoomies
	go build -ldflags='-s -w' -o bin/zoomies-entrypoint ./images/entrypoint
	go build -o bin/sim-runner ./sim/runner
	go run ./sim/image/build -entrypoint bin/zoomies-entrypoint -runner bin/sim-runner -output bin/demo-image.tar

# The sidecar that jobs of a Podman-first pool build images in, of this machine's own Debian where it is one of the catalogue's.
HOST_SYSTEM := $(shell . /etc/os-release && if [ "$$ID" = debian ] && [ "$$VERSION_ID" = 12 ]; then echo debian-12; else echo debian-13; fi)
bin/podman-daemon.tar: images/catalogue/catalogue.json $(wildcard images/build/*.go)
	@tools/deps image
	@mkdir -p bin
	go run ./images/build podman-daemon -system $(HOST_SYSTEM) -output $@.new
	@mv $@.new $@

# Compares two descriptions of the API. A module of its own, for its libraries are newer than the fleet's.
bin/apidiff: $(wildcard tools/apidiff/*)
	@mkdir -p bin
	cd tools/apidiff && go build -o ../../bin/apidiff .

.PHONY: release-api
release-api: ## Make the API's description the one that later changes must not break
	go run ./tools/apigen -release
.PHONY: e2e-init
e2e-init: ## Install, upgrade and uninstall on a Debian with systemd, in a machine of QEMU's
	go build -ldflags='-s -w -X main.version=$(VERSION)' -o bin/zoomies-init ./cmd/zoomies
	ZOOMIES=$(CURDIR)/bin/zoomies-init tests/init/run

# A real Headscale, from its module: a module of its own, for it is older than what the fleet is built with.
bin/headscale: $(wildcard tools/headscale/*)
	@mkdir -p bin
	cd tools/headscale && go build -o ../../bin/headscale github.com/juanfont/headscale/cmd/headscale

.PHONY: e2e-headscale
e2e-headscale: bin/headscale ## Test the tunnel over a tailnet against a real Headscale
	ZOOMIES_HEADSCALE=$(CURDIR)/bin/headscale go test -count=1 -v -timeout 20m -run 'TestHeadscale' ./tunnel/tailnet

.PHONY: lint
lint: $(GOLANGCI) ## Check form and habits (gofmt, go vet, golangci-lint)
	@unformatted=$$(git ls-files '*.go' | xargs -r gofmt -l); \
	  if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(GOLANGCI) run

.PHONY: race
race: contract build bin/podman-daemon.tar bin/apidiff ## Run every test with the race detector
	@tools/deps run race
	CGO_ENABLED=1 go test -race -timeout 60m $(TEST)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	@tools/fuzz $(FUZZTIME)

REQUESTS ?= 50000
SEED ?= 1
.PHONY: fuzz-api
fuzz-api: ## Try the whole API with REQUESTS (50000) generated requests: no 5xx, no secret where it does not belong
	@go run ./tests/fuzzapi -requests $(REQUESTS) -seed $(SEED)

.PHONY: bench
bench: deps build ## Measure the stages of a start, scheduling and ingest; prints JSON
	@go run ./tests/bench

SYSTEM ?= debian-13
.PHONY: image
image: ## Build a Debian runner image: make image ARCHIVE=actions-runner-….tar.gz
	@[ -f "$(ARCHIVE)" ] || { echo "give the runner's archive: make image ARCHIVE=path [SYSTEM=$(SYSTEM)]"; exit 1; }
	@tools/deps image
	@mkdir -p bin out
	go build -ldflags='-s -w' -o bin/zoomies-entrypoint ./images/entrypoint
	go run ./images/build runner -system $(SYSTEM) -archive $(ARCHIVE) \
	  -entrypoint bin/zoomies-entrypoint -output out/runner-$(SYSTEM).tar

.PHONY: docs
docs: ## Write the reference pages, the API's description and its client from the code
	go run ./tools/docgen
	go run ./tools/apigen
	go run ./cmd/zoomies reference pages docs/reference

.PHONY: contract
contract: tests/contract/node_modules/.package-lock.json ## Fetch GitHub's own description of its API, for the tests

tests/contract/node_modules/.package-lock.json: tests/contract/package.json tests/contract/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or later"; exit 1; }
	cd tests/contract && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin out tests/contract/node_modules

# Built once for each version of the linter and of Go: it must be compiled by a Go as new as
# the code that it reads. Our tags mean nothing to it.
$(GOLANGCI):
	@mkdir -p bin/tools/new
	GOFLAGS=-buildvcs=false GOBIN=$(CURDIR)/bin/tools/new \
	  go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv bin/tools/new/golangci-lint $@ && rmdir bin/tools/new
