# The two commands of the README. Both set up .venv first, once.
PYTHON ?= python3
PY := .venv/bin/python
RUN := runs/photos
# The demo's curve over labels: these parts of them, on the encoder and on pixels, in a shorter form than the presets'.
FRACTIONS := 0.01 0.05 0.2
SHORT := --held_out=0 --finetune_steps=0 --train_steps=600
CURVE := $(foreach fraction,$(FRACTIONS),$(RUN)/efficient/cpc_$(fraction)/result.json $(RUN)/efficient/pixels_$(fraction)/result.json)

.PHONY: demo test setup native clean-demo
.DELETE_ON_ERROR:

demo: $(RUN)/report/report.html
	@cat $(RUN)/linear/table.txt $(RUN)/report/summary.txt
	@echo "hub module: $(RUN)/hub   (hub.KerasLayer(\"$(RUN)/hub\"))"
	@echo "picture:    $(RUN)/linear/linear.png"
	@echo "report:     $(RUN)/report/report.html"

test: .venv/installed
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	$(PY) -m pytest -n 2 --dist loadfile

setup: .venv/installed

# The fast augmentation, which is else built on first use.
native: .venv/installed
	$(PY) -m cpc_tf.augment.build

clean-demo:
	rm -rf $(RUN)

.venv/installed: requirements.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 9) <= v <= (3, 11) else \
	  "error: Python %d.%d: TensorFlow 2.15 needs 3.9, 3.10 or 3.11; try: make PYTHON=python3.11" % v)'
	@free=$$(df -Pk . | awk 'NR==2 {print $$4}'); [ $$free -gt 4000000 ] || \
	  { echo "error: only $$((free / 1024)) MB free on this disk; setting up needs 4000 MB"; exit 1; }
	@echo "setting up .venv (about 2.3 GB, a few minutes the first time)"
	@$(PYTHON) -m venv --clear .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt > .venv/install.log 2>&1 || \
	  { tail -n 15 .venv/install.log; echo "error: pip could not install requirements.txt; all it said: .venv/install.log"; exit 1; }
	@$(PY) -m pip check
	@touch $@

# Interrupted, the next `make demo` goes on where this one was.
$(RUN)/pretrain/result.json: | .venv/installed
	$(PY) -m cpc_tf.pretrain --flagfile=flags/photos/pretrain.flags --workdir=$(RUN)/pretrain

$(RUN)/hub/encoder.json: $(RUN)/pretrain/result.json
	$(PY) -m export --workdir=$(RUN)/pretrain --output=$(RUN)/hub

$(RUN)/linear/result.json: $(RUN)/hub/encoder.json
	$(PY) -m cpc_tf.linear --flagfile=flags/photos/linear.flags --encoder=$(RUN)/hub --workdir=$(RUN)/linear

$(RUN)/efficient/cpc_%/result.json: $(RUN)/hub/encoder.json
	$(PY) -m cpc_tf.efficient --flagfile=flags/photos/efficient.flags --encoder=$(RUN)/hub --label_fraction=$* $(SHORT) --workdir=$(@D)

$(RUN)/efficient/pixels_%/result.json: | .venv/installed
	$(PY) -m cpc_tf.efficient --flagfile=flags/photos/efficient_pixels.flags --encoder=pixels --label_fraction=$* $(SHORT) --workdir=$(@D)

$(RUN)/report/report.html: $(RUN)/linear/result.json $(CURVE)
	$(PY) -m cpc_tf.report --runs=$(RUN) --output=$(@D)
