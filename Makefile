# The two commands of the README. Both first set up the virtual environment $(VENV), once.
# setup.sh explains ENVIRONMENT (classic or current), PYTHON and GPU (0 or 1).
VENV ?= .venv
PY := $(VENV)/bin/python
INSTALLED := $(shell cat $(VENV)/installed 2>/dev/null)
# Whether it has CUDA's libraries: 1 or 0; empty before the set-up.
WITH_CUDA := $(if $(INSTALLED),$(if $(filter gpu,$(INSTALLED)),1,0))
RUN := runs/photos
SMALL := $(RUN)/small
# The demo's label curve: CPC and the supervised baseline with these fractions of the labels, in shorter runs than the presets'.
FRACTIONS := 0.01 0.1
SHORT := --held_out=0 --finetune_steps=0 --train_steps=400
CURVE := $(foreach fraction,$(FRACTIONS),$(SMALL)/efficient_$(fraction)/result.json $(RUN)/pixels/efficient_$(fraction)/result.json)

# Two runs at a time, since a small one alone does not keep two cores busy, nor a GPU.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# $(call beside,NAME,COMMAND): prints the command, runs it, and puts NAME before each line of its output.
beside = @echo "$(PY) -m $(2)"; $(PY) -m $(2) 2>&1 | (trap '' INT TERM; exec sed -u 's|^|$(1): |')

.PHONY: demo test setup locks native docs site clean-demo
.DELETE_ON_ERROR:

# It takes the first GPU, if there is one, or those that you name.
demo: export CUDA_VISIBLE_DEVICES ?= 0
demo: $(RUN)/report/report.html
	@cat $(SMALL)/linear/table.txt $(RUN)/report/summary.txt
	@echo "module:     $(SMALL)/hub   (tf.saved_model.load(\"$(SMALL)/hub\"))"
	@echo "picture:    $(SMALL)/linear/linear.png"
	@echo "report:     $(RUN)/report/report.html"

# With FAST=1 without the tests that are marked slow.
test: $(VENV)/installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(PY) -m tests.run $(if $(FAST),--fast)

setup: $(VENV)/installed

# Writes the exact versions of all packages, with the hashes of their files, after a change of requirements or groups.
locks:
	locks/renew.sh

# Builds the C++ operations, which are otherwise built at their first use.
native: $(VENV)/installed
	$(PY) -m cpc_tf.augment.build

# Writes what documents have from presets and records: tables and pictures.
docs: $(VENV)/installed
	$(PY) -m website.presets
	$(PY) -m studies.results --pictures

# The documentation site, into site/.
site: $(VENV)/installed
	$(PY) -m pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

clean-demo:
	rm -rf $(SMALL) $(RUN)/pixels $(RUN)/report

# Sets up anew if another environment, another version of Python, or another choice of GPU is asked for than is installed.
ifneq ($(ENVIRONMENT),)
ifneq ($(ENVIRONMENT),$(firstword $(INSTALLED)))
.PHONY: $(VENV)/installed
endif
endif
ifneq ($(PYTHON),)
# GNU Make prints the output of a shell that exits with 127 (no such command), in place of returning it.
ifneq ($(shell "$(PYTHON)" -V 2>&1 || true),$(shell $(PY) -V 2>&1 || true))
.PHONY: $(VENV)/installed
endif
endif
ifneq ($(GPU),)
ifneq ($(GPU),$(WITH_CUDA))
.PHONY: $(VENV)/installed
# The same environment, unless another is asked for, too.
ifeq ($(ENVIRONMENT)$(PYTHON),)
ENVIRONMENT := $(firstword $(INSTALLED))
endif
endif
endif
$(VENV)/installed: $(filter-out locks/%-onnx.txt locks/%-keras-hub.txt,$(wildcard locks/*.txt))
	@./setup.sh "$(VENV)" "$(ENVIRONMENT)" "$(PYTHON)" "$(GPU)"

# One of the preset's five epochs: the figures are nearly those of five, in a fifth of the time.
EPOCHS := --train_epochs=1
# A processor without AVX-512 emulates the preset's bfloat16: float32 takes 0.3 of the time there.
CPUINFO := /proc/cpuinfo
GPUS := $(if $(filter 0,$(or $(GPU),$(WITH_CUDA))),0,$(shell nvidia-smi -L 2>/dev/null | grep -c "^GPU"))
SLOW := $(if $(filter-out 0,$(GPUS)),,$(shell grep -sm1 ^flags $(CPUINFO) | grep -v avx512f))

# If `make demo` is interrupted, the next one resumes.
$(SMALL)/pretrain/result.json: | $(VENV)/installed
	$(PY) -m cpc_tf.pretrain --flagfile=flags/photos/pretrain.flags $(if $(SLOW),--precision=float32) $(EPOCHS) \
	  --workdir=$(SMALL)/pretrain

$(SMALL)/hub/encoder.json: $(SMALL)/pretrain/result.json
	$(PY) -m export --workdir=$(SMALL)/pretrain --output=$(SMALL)/hub

$(SMALL)/linear/result.json: $(SMALL)/hub/encoder.json
	$(call beside,linear,cpc_tf.linear --flagfile=flags/photos/linear.flags --encoder=$(SMALL)/hub --workdir=$(SMALL)/linear)

$(SMALL)/efficient_%/result.json: $(SMALL)/hub/encoder.json
	$(call beside,cpc $*,cpc_tf.efficient --flagfile=flags/photos/efficient.flags --encoder=$(SMALL)/hub \
	  --label_fraction=$* $(SHORT) --workdir=$(@D))

# Runs after pre-training, which keeps two cores busy by itself.
$(RUN)/pixels/efficient_%/result.json: | $(SMALL)/pretrain/result.json
	$(call beside,pixels $*,cpc_tf.efficient --flagfile=flags/photos/efficient_pixels.flags --encoder=pixels \
	  --label_fraction=$* $(SHORT) --workdir=$(@D))

$(RUN)/report/report.html: $(SMALL)/linear/result.json $(CURVE)
	$(PY) -m cpc_tf.report --runs=$(RUN) --output=$(@D)
