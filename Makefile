# make run     build, convert the sample, say where it is
# make test    install what the tests need, run them all
# make golden  renew golden/ after a change that was meant
# make bench   the figures: ratios of one run
# make lint    format and lints
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
TOOLS := $(CURDIR)/target/test-tools

.PHONY: run test tools golden bench lint

run:
	@cargo build --release --quiet --bin anim2gltf
	@./target/release/anim2gltf golden/sample.ycd -o out
	@echo "Open $(CURDIR)/out/sample.glb in Blender: File > Import > glTF 2.0"

tools:
	@tests/tools/install.sh

# The tools are fetched while the tests compile.
test:
	@tests/tools/install.sh & tools=$$!; \
	 cargo test --quiet --no-run || { wait $$tools || true; exit 1; }; \
	 wait $$tools; \
	 env $$( [ -d $(TOOLS)/node_modules/gltf-validator ] && echo ANIM2GLTF_NODE_MODULES=$(TOOLS)/node_modules || true) \
	     $$( [ -x $(TOOLS)/python/bin/python ] && echo ANIM2GLTF_BLENDER_PYTHON=$(TOOLS)/python/bin/python || true) \
	     cargo test --quiet

golden:
	@cargo test --quiet --test integration -- --ignored golden::renew

bench: tools
	@ANIM2GLTF_NODE_MODULES=$(TOOLS)/node_modules cargo bench --quiet
	@cargo build --release --quiet --bin anim2gltf
	@if [ -x $(TOOLS)/python/bin/python ]; then \
	    $(TOOLS)/python/bin/python tests/blender/time_import.py target/release/anim2gltf golden/sample.ycd \
	        --clip walk 2>/dev/null | grep '^Blender'; \
	else echo "Blender's import: not there"; fi

lint:
	@cargo fmt --check
	@cargo clippy --quiet --all-targets -- -D warnings
