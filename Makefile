# The two commands of the README. Both set up $(VENV) first, once: see setup.sh for LANE (classic or current) and PYTHON.
VENV ?= .venv
PY := $(VENV)/bin/python
RUN := runs/photos
# The demo's curve over labels: these parts of them, on the encoder and on pixels, in a shorter form than the presets'.
FRACTIONS := 0.01 0.05 0.2
SHORT := --held_out=0 --finetune_steps=0 --train_steps=600
CURVE := $(foreach fraction,$(FRACTIONS),$(RUN)/efficient/cpc_$(fraction)/result.json $(RUN)/efficient/pixels_$(fraction)/result.json)

# Two runs at a time: alone, the small ones do not keep two cores busy. Their lines begin with what they are of.
MAKEFLAGS += --jobs=2
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# $(call beside,NAME,COMMAND): prints it, runs it, and puts NAME before all that it says.
beside = @echo "$(PY) -m $(2)"; $(PY) -m $(2) 2>&1 | (trap '' INT TERM; exec sed -u 's/^/$(1): /')

.PHONY: demo test setup native clean-demo
.DELETE_ON_ERROR:

demo: $(RUN)/report/report.html
	@cat $(RUN)/linear/table.txt $(RUN)/report/summary.txt
	@echo "hub module: $(RUN)/hub   (hub.KerasLayer(\"$(RUN)/hub\"))"
	@echo "picture:    $(RUN)/linear/linear.png"
	@echo "report:     $(RUN)/report/report.html"

test: $(VENV)/installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(PY) -m pytest -n 2 --dist loadfile

setup: $(VENV)/installed

# The fast augmentation, which is else built on first use.
native: $(VENV)/installed
	$(PY) -m cpc_tf.augment.build

clean-demo:
	rm -rf $(RUN)

# Another lane, or another version of Python, than what is installed: set up anew.
ifneq ($(LANE),)
ifneq ($(LANE),$(shell cat $(VENV)/installed 2>/dev/null))
.PHONY: $(VENV)/installed
endif
endif
ifneq ($(PYTHON),)
ifneq ($(shell "$(PYTHON)" -V 2>&1),$(shell $(PY) -V 2>&1))
.PHONY: $(VENV)/installed
endif
endif
$(VENV)/installed: requirements.txt requirements-current.txt requirements-dev.txt
	@./setup.sh "$(VENV)" "$(LANE)" "$(PYTHON)"

# Interrupted, the next `make demo` goes on where this one was.
$(RUN)/pretrain/result.json: | $(VENV)/installed
	$(PY) -m cpc_tf.pretrain --flagfile=flags/photos/pretrain.flags --workdir=$(RUN)/pretrain

$(RUN)/hub/encoder.json: $(RUN)/pretrain/result.json
	$(PY) -m export --workdir=$(RUN)/pretrain --output=$(RUN)/hub

$(RUN)/linear/result.json: $(RUN)/hub/encoder.json
	$(call beside,linear,cpc_tf.linear --flagfile=flags/photos/linear.flags --encoder=$(RUN)/hub --workdir=$(RUN)/linear)

$(RUN)/efficient/cpc_%/result.json: $(RUN)/hub/encoder.json
	$(call beside,cpc $*,cpc_tf.efficient --flagfile=flags/photos/efficient.flags --encoder=$(RUN)/hub \
	  --label_fraction=$* $(SHORT) --workdir=$(@D))

# After the pre-training, which keeps two cores busy alone.
$(RUN)/efficient/pixels_%/result.json: | $(RUN)/pretrain/result.json
	$(call beside,pixels $*,cpc_tf.efficient --flagfile=flags/photos/efficient_pixels.flags --encoder=pixels \
	  --label_fraction=$* $(SHORT) --workdir=$(@D))

$(RUN)/report/report.html: $(RUN)/linear/result.json $(CURVE)
	$(PY) -m cpc_tf.report --runs=$(RUN) --output=$(@D)
