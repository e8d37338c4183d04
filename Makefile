# Anabranch: what people do with it, by one command each. `make` lists them.
CARGO ?= cargo
FUZZ_SECONDS ?= 60
# One mutant in twenty, from the first on: SHARD=7/20 tries others, SHARD=0/1 all.
SHARD ?= 0/20
# Parts of scripts/mutants.py; all by default.
PARTS ?=
DEMO_ARGUMENTS ?=
# The streaming program with what the demo shows.
DEMO = $(CARGO) run --profile demo -p anabranch-cli --no-default-features --features demo -- demo
LAB = $(CARGO) run --release --quiet -p anabranch-lab-cli --
RMCAT_SEEDS ?= 5
RMCAT_CONTROLLERS ?= live-bbr,all-media,cubic,new-reno
RMCAT_METRICS ?= utilisation,delay-p95,loss,fairness,frames-decodable-on-time,feedback-overhead,queue-mean,throughput,$(RMCAT_OF_FLOWS)
# RFC 8868 §3: of each flow of media
RMCAT_OF_FLOWS ?= convergence-time-mean,convergence-time-max,settled-phases,oscillations,send-rate-variation,receive-rate-variation
# RFC 8869
WIRELESS_SEEDS ?= 3
WIRELESS_METRICS ?= frame-delay-all-p95,delay-p95,goodput
RESULTS ?= target/results
RESULTS_SEEDS ?= 10
# Whole films of each of 1,620 settings, for the paper by Matsufuji et al.
RESULTS_FILMS ?= 5
RESULTS_CONTROLLERS ?= live-bbr,gcc,nada,scream,copa,bbr3,cubic
DOCKER ?= docker
SCHEDULERS ?= anabranch,min-cost,all,oracle
FRONTIER ?= target/frontier
FRONTIER_SEEDS ?= 3
FRONTIER_CONTROLLERS ?= live-bbr,poise,gcc,scream,copa,nada,bbr3,delay-bbr

# rustup installs cargo here, and shells that are open do not know it yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help setup demo test test-real python site bench fuzz mutants papers results rmcat frontier schedulers contest srtla audit dist image publish-check clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## install the missing tools of demo and test: compilers, Rust (Debian, Fedora, macOS)
	@scripts/setup.sh install

demo: ## live video over two emulated links in real time, one of which fails (INPUT=file sends your video)
	@scripts/setup.sh check demo
	$(DEMO) $(if $(INPUT),--input $(INPUT)) $(DEMO_ARGUMENTS)

test: ## everything a newcomer should see pass; STRICT=1 fails if a check was not judged or a test was flaky
	@scripts/setup.sh check test
	CARGO="$(CARGO)" scripts/test.sh

python: ## the laboratory as a Python package, a wheel in target/wheels (needs Python 3.10): docs/python.md
	scripts/test-python.sh wheel

site: ## the documents as a site with search, the Rust API and the playground, in target/site (installs mdBook if it is missing)
	CARGO="$(CARGO)" scripts/site.sh

test-real: ## what loopback cannot show: interfaces that come and go, long pauses, SRT, SRTLA, RTMP and RIST, pages in a browser, files of a release (minutes; parts need root on Linux)
	CARGO="$(CARGO)" scripts/test-real.sh

bench: ## how fast the simulator is, what controllers, schedulers, FEC, frames, handshakes, a gigabit over real sockets and the dashboard cost; beside SRT
	$(CARGO) bench --quiet -p anabranch-lab --bench simulator
	$(CARGO) bench --quiet -p anabranch-lab --bench instructions
	$(CARGO) bench --quiet -p anabranch-controllers --bench controllers
	$(CARGO) bench --quiet -p anabranch-schedulers --bench schedulers
	$(CARGO) bench --quiet -p anabranch-fec --bench fec
	$(CARGO) bench --quiet -p anabranch-core --bench allocations
	$(CARGO) bench --quiet -p anabranch-secure --bench handshake
	$(CARGO) run --profile dist --quiet -p anabranch-net --example loopback_figures
	$(CARGO) run --profile dist --quiet -p anabranch-net --example byte_delays
	$(CARGO) build --profile dist --quiet -p anabranch-cli
	$(CARGO) run --profile dist --quiet -p anabranch-cli --example beside_srt
	$(CARGO) run --profile dist --quiet -p anabranch-cli --example tunnel_figures
	$(CARGO) run --profile dist --quiet -p anabranch-cli --example dashboard_figures

# A run begins with the corpora of the repository, and keeps what it finds in target/fuzz.
fuzz: ## look for inputs that break a parser, FUZZ_SECONDS each (needs a nightly toolchain)
	@CARGO="$(CARGO)" scripts/cargo-tool.sh cargo-fuzz
	for target in $$($(CARGO) +nightly fuzz list); do \
	  mkdir -p target/fuzz/$$target; \
	  $(CARGO) +nightly fuzz run $$target target/fuzz/$$target $$(ls -d fuzz/corpus/$$target 2>/dev/null) \
	    -- -max_total_time=$(FUZZ_SECONDS) || exit 1; done

mutants: ## change rules one by one and see whether a test fails: SHARD=k/n of them, in PARTS (scripts/mutants.py)
	@CARGO="$(CARGO)" scripts/cargo-tool.sh cargo-mutants
	CARGO="$(CARGO)" scripts/mutants.py --shard $(SHARD) $(PARTS)

papers: ## test all that papers claim, over up to ten seeds, and that claims can fail; writes anabranch-report.html
	$(LAB) reproduce
	$(CARGO) test --release --quiet -p anabranch-papers -- --ignored

results: ## run what docs/results.md shows, and write its tables and pictures: a part of each release (some hours of two cores)
	mkdir -p $(RESULTS)
	$(CARGO) build --release --quiet -p anabranch-lab-cli
	$(LAB) reproduce --others --seeds $(RESULTS_SEEDS) --format json --output $(RESULTS)/report.html \
	  zhang-delay-bbr kondo grieco-arc ns2 ns3 own > $(RESULTS)/findings.json
	$(LAB) reproduce --seeds $(RESULTS_FILMS) --format json --output $(RESULTS)/films.html matsufuji > $(RESULTS)/findings-films.json
	$(LAB) compare --controllers $(RESULTS_CONTROLLERS) --seeds $(RMCAT_SEEDS) \
	  --metrics utilisation,delay-p95,loss --format json scenarios/rmcat/*.toml > $(RESULTS)/rmcat.json
	$(LAB) compare --controllers $(RESULTS_CONTROLLERS) --seeds $(WIRELESS_SEEDS) \
	  --metrics $(WIRELESS_METRICS) --format json scenarios/rmcat-wireless/*.toml > $(RESULTS)/wireless.json
	$(LAB) contest > $(RESULTS)/contest.txt || [ $$? -eq 4 ]
	scripts/results.py $(RESULTS) docs/results.md docs/results-claims.md docs/results-networks.md

rmcat: ## RFC 8867's cases with every media controller: a table, and rmcat.svg (about two minutes)
	$(LAB) compare --controllers $(RMCAT_CONTROLLERS) \
	  --seeds $(RMCAT_SEEDS) --metrics $(RMCAT_METRICS) --plot rmcat.svg scenarios/rmcat/*.toml

frontier: ## delay, use, loss and share of controllers of media over some 80 points: writes the table and the plot of docs/frontier.md (some minutes)
	mkdir -p $(FRONTIER)
	$(LAB) frontier --controllers $(FRONTIER_CONTROLLERS) --seeds $(FRONTIER_SEEDS) \
	  --plot docs/frontier.svg --format json > $(FRONTIER)/frontier.json
	scripts/results.py $(FRONTIER) docs/frontier.md

schedulers: ## every scheduler over the scenarios of many paths: delay, frames in time, goodput; min-cost's bound (some minutes)
	$(LAB) compare --schedulers $(SCHEDULERS) --seeds 6 \
	  --metrics frame-delay-all-excess-p95,frames-decodable-on-time,goodput,overhead scenarios/multipath/*.toml
	$(LAB) compare --schedulers $(SCHEDULERS) --seeds 6 \
	  --metrics frame-delay-all-excess-p95.multipath,frames-decodable-on-time.multipath,goodput.multipath \
	  scenarios/zhang-multipath/config-*.toml
	$(CARGO) run --release --quiet -p anabranch-lab --example frame_delay_bound -- \
	  scenarios/multipath/*.toml scenarios/zhang-multipath/config-*.toml

# A row that misses its bar (4) is a result, as a claim that differs is one of `papers`: it is printed, and make has not failed.
contest: ## the cases in which SRT, RIST, SRTLA and noq were measured, simulated: what arrives in time, and at which overhead
	$(LAB) contest || [ $$? -eq 4 ]

srtla: ## senders of SRTLA before a model of libsrt's receiver, 200 seeds: what is missing, and what is sent again
	SRTLA_FIRST=10000 SRTLA_SEEDS=200 $(CARGO) test --quiet --release \
		-p anabranch-srtla --test tests judge -- --nocapture

audit: ## licences, sources, banned and yanked crates, and known holes where RustSec's database can be had (needs cargo-deny)
	@CARGO="$(CARGO)" scripts/cargo-tool.sh cargo-deny
	CARGO="$(CARGO)" scripts/audit.sh

publish-check: ## package and build all published crates, and upload nothing (compiles each package; needs a clean tree)
	CARGO="$(CARGO)" scripts/publish-dry-run.sh
	CARGO="$(CARGO)" scripts/check-features.sh features

dist: ## the files of a release, in target/packages: static programs, Debian packages, images, install.sh (docs/release.md)
	CARGO="$(CARGO)" scripts/dist.sh

image: ## a container image, anabranch, of the package in target/packages (needs docker, or DOCKER=podman)
	$(DOCKER) build -f packaging/Dockerfile -t anabranch target/packages

clean: ## remove what was built
	$(CARGO) clean
