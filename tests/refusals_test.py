"""What a user asks for that cannot be done: one line that names the flag, its value and what would
be right.

One table for all commands. A row: the command, its flags (words in one text, or a list where a word
holds a space), the message, and the content of a flag file if FILE is among the flags. PICTURES,
BOXES, MODULE and EMPTY stand for folders that are made when a row names them; a run would be in
EMPTY. A refusal that needs more is tested beside what refuses.
"""

import functools
import pathlib
import re

import pytest

from cpc_tf.core import cli
from cpc_tf.core.commands import COMMANDS, TASKS
from cpc_tf.core.settings import ConfigError
from cpc_tf.training import loop
from tests import modules, samples

FOLDERS = {
    "PICTURES": lambda path: samples.write_pictures(path, {"train": 2, "val": 1}),
    "BOXES": samples.write_boxes,
    "MODULE": modules.write_module,
    "EMPTY": pathlib.Path.mkdir,
}

# Beginnings of command lines that are long enough to reach what refuses.
DETECT = "--dataset=voc:BOXES --test_split=train --encoder=random --backbone=tiny"
FEW_LABELS = "--encoder=pixels --dataset=folder:PICTURES --test_split=val"
EMBED = "--encoder=random --pictures=PICTURES --output=EMPTY/x.npz"

TABLE = [
    # ---- flags and flag files
    ("pretrain", "--batch_size=many", r"^--batch_size=many: must be a whole number \(default 512\)$"),
    ("pretrain", "--learning_rate=fast", "^--learning_rate=fast: must be a number"),
    ("pretrain", "--learning_rate=0", r"^--learning_rate=0.0: must be above 0 \(default 0.0004\)$"),
    ("pretrain", "--encoder=resnet18", "^--encoder=resnet18: must be one of resnet161, resnet50"),
    ("pretrain", "--mirror=perhaps", "^--mirror=perhaps: must be true or false"),
    ("pretrain", "--mirror=" + "x" * 100_000, "^--mirror=xxx.*: must be true or false"),
    ("pretrain", "--seed=9223372036854775808", "^--seed=9223372036854775808: must be at most 4294967295"),
    ("pretrain", "--seed=0x" + "f" * 5000, "must be a whole number"),
    ("pretrain", "--batchsize=3", "^Unknown command line flag 'batchsize'. Did you mean: batch_size"),
    ("pretrain", "--" + "x" * 100_000, "x: no such flag"),
    ("pretrain", "--set=target_dim", "^--set=target_dim: must be NAME=VALUE, separated by commas, e.g. --set=drop"),
    ("pretrain", "--set=target_dims=3", "^Unknown command line flag 'target_dims'. Did you mean: target_dim"),
    ("pretrain", "photos", "^photos: not a flag; settings are given as --name=value"),
    ("pretrain", ["a\nb"], r"^a\\nb: not a flag"),
    ("pretrain", ["--workdir=a\nb"], r"^--workdir=a\\nb: must be text without control characters"),
    ("linear", "--workdir=runs/[a]", r"^--workdir=runs/\[a\]: must be a path without"),
    ("linear", "--encoder=random:a?b", r"^--encoder=random:a\?b: must be a path without"),
    ("linear", "--encoder=-1..1:net.h5 --dataset=photos", r"net.h5: Keras files are not read; .* model\.export\('DIR"),
    ("efficient", "--encoder=a/net.keras --dataset=photos", "^--encoder=a/net.keras: Keras files are not read"),
    ("export", "--output=a\\b", r"^--output=a\\b: must be a path without"),
    ("pretrain", "--flagfile", "^--flagfile: name a file, e.g. --flagfile=my.flags"),
    ("pretrain", "--flagfile=/", "^--flagfile=/: cannot be read"),
    ("pretrain", "--flagfile=" + "a" * 9999, "^--flagfile=aaa.*: cannot be read"),
    ("pretrain", "--flagfile=nowhere.flags", "^--flagfile=nowhere.flags: cannot be read"),
    ("linear", "--flagfile=flags/photos/../photos/x.flags", r"cannot be read \(No such file or directory\)$"),
    ("linear", "--flagfile=/a/flags/photos/linear.flags",
     "cannot be read .*; the program has it as --preset=photos/linear$"),
    ("pretrain", "--flagfile=FILE", "not a text file", b"\x7fELF\xff\xfe"),
    ("pretrain", "--flagfile=FILE", "includes itself", b"--flagfile=FILE\n"),
    ("pretrain", "--flagfile=FILE", "includes itself", b"--flagfile=EMPTY/../FILE\n"),
    ("pretrain", "--flagfile=FILE", "^--flagfile: name a file", b"--flagfile\n"),
    ("pretrain", "--flagfile=FILE", "not the name of a file", b"--flagfile=a\0b\n"),
    ("pretrain", "--flagfile=FILE", "too large", b"# x\n" * 300_000),
    ("pretrain", "--flagfile=FILE", r"^a\\x00b: not a flag", b"a\0b\n"),
    ("pretrain", "--flagfile=FILE", r"^--batch_size=\\x00: must be a whole number", b"--batch_size=\0\n"),
    ("pretrain", "--preset", "^--preset: name one, e.g. --preset=photos/pretrain"),
    ("pretrain", "--preset=", "^--preset=: no such preset"),
    ("pretrain", "--preset=photos", "^--preset=photos: no such preset; did you mean .*photos/pretrain"),
    ("export", "--preset=photos/pretrain", "^Unknown command line flag"),
    # ---- data: folders, tables of labels, splits, records
    ("pretrain", "--dataset=", r"^--dataset=: name a dataset"),
    *(
        (command, f"--dataset={kind}:", f"^--dataset={kind}:: name a path, e.g. --dataset={kind}:PATH")
        for command, kind in (("pretrain", "folder"), ("detect", "voc"), ("detect", "coco"), ("detect", "yolo"))
    ),
    ("pretrain", "--dataset=folder:nowhere", r"^--dataset=folder:nowhere: no such folder"),
    ("pretrain", "--dataset=voc:/nowhere", r"^--dataset=voc:/nowhere: no such folder"),
    ("pretrain", "--dataset=photo", "^--dataset=photo: no such dataset"),
    ("pretrain", "--dataset=photos/many", "^--dataset=photos/many: .* number of unlabelled crops"),
    ("pretrain", "--dataset=photos/0", "^--dataset=photos/0: .* number of unlabelled crops"),
    ("pretrain", "--dataset=folder:EMPTY", "^--dataset=folder:EMPTY: no images in it"),
    ("pretrain", "--dataset=folder:PICTURES --split=test", "^--split=test: folder:PICTURES has train, val$"),
    ("pretrain", "--dataset=folder:PICTURES --split=extra[:10%]",
     "^--split=extra\\[:10%\\]: folder:PICTURES has train, val$"),
    ("pretrain", "--labelled=PICTURES --labels=/nowhere", "^--labels=/nowhere: cannot be read"),
    ("pretrain", "--labels=a.csv", "^--labels=a.csv: needs --labelled=FOLDER, the folder"),
    ("pretrain", "--unlabelled=a,", "^--unlabelled=a,: must be folders separated by single commas"),
    ("pretrain", "--unlabelled=PICTURES,/no", "^--unlabelled=/no: no such folder; commas separate folders, and"),
    ("pretrain", "--unlabelled=PICTURES,EMPTY", "^--unlabelled=EMPTY: no images in it"),
    ("pretrain", "--unlabelled=~/no", "^--unlabelled=/.*/no: no such folder"),
    ("pretrain", "--labelled=PICTURES --labels=FILE",
     r"^--labels=FILE: the class red\|big joins classes of the table by '\|'; write several .* semicolons, cat;dog",
     b"train/red/0.png,red|big\ntrain/blue/0.png,red\n"),
    ("linear", "--unlabelled=x", "^--unlabelled=x: a classifier learns from images with labels only"),
    # ---- boxes: VOC, COCO, YOLO
    ("detect", f"{DETECT} --dataset=voc:/nowhere", "^--dataset=voc:/nowhere: no such folder"),
    ("detect", f"{DETECT} --dataset=voc/1999", "^--dataset=voc/1999: "),
    ("detect", f"{DETECT} --dataset=collages/-1", "^--dataset=collages/-1: .* images to train on"),
    ("detect", f"{DETECT} --dataset=coco/2017", "^--dataset=coco/2017: is not a dataset with boxes; use col"),
    ("detect", f"{DETECT} --dataset=folder:x", "^--dataset=folder:x: is not a dataset with boxes; use collage"),
    ("detect", "--boxes=/nowhere", "^--boxes=/nowhere: no such folder"),
    ("detect", "--boxes=PICTURES", "^--boxes=PICTURES: none of its 9 images has an XML or text file of its"),
    ("data", "--boxes=EMPTY", "^--boxes=EMPTY: none of its 0 images has an XML"),
    # ---- augmentation
    ("pretrain", "--augment_changes=autoaugment=1e23", "autoaugment=1e23: must be a whole number, at least 0"),
    ("pretrain", "--augment_changes=rotate.limit=1e30", "rotate.limit=1e30: must be a number, at least 0 and"),
    ("pretrain", "--augment_changes=gray=0", "^--augment_changes=gray=0: gray: no operation .*; did you mean grey\\?"),
    ("pretrain", "--augment_changes=distort.hew=0", r"distort.hew: no operation .*; did you mean distort.hue\?"),
    ("pretrain", "--augment_changes=grey", "^--augment_changes=grey: grey: must be ENTRY=NUMBER, e.g. grey=0"),
    ("pretrain", "--augment_changes=grey=2", "grey=2: must be a number, at least 0 and at most 1"),
    ("pretrain", "--augment_changes=rotate.limit=inf", "rotate.limit=inf: must be a number, at least 0"),
    ("pretrain", "--augment_changes=autoaugment=1.5", "autoaugment=1.5: must be a whole number, at least 0"),
    ("pretrain", "--augment_changes=posterize.fewest=9", "posterize.fewest=9: .*, at least 1 and at most 8"),
    ("pretrain", "--augment=v1 --augment_changes=autoaugment=2", "--augment=v1 has no primitives to choose 2 from"),
    # ---- encoders and modules
    ("label", "--pictures=EMPTY/none --encoder=pixels --labels=EMPTY/l.csv", "none: there is no such folder$"),
    ("label", "--pictures=EMPTY --encoder=pixels --labels=EMPTY/l.csv", "EMPTY: no image in this folder"),
    ("label", "--pictures=PICTURES --labels=labels.xlsx", "^--labels=labels.xlsx: must end with .csv$"),
    ("label", "--pictures=gs://bucket/x", "^--pictures=gs://bucket/x: must be on a disk of this machine"),
    ("label", "--pictures=PICTURES --encoder=", "^--encoder= is empty: name an encoder"),
    ("embed", f"{EMBED} --encoder=", "^--encoder= is empty"),
    ("pretrain", "--encoder=keras:VGG16", "^--encoder=keras:VGG16: cannot begin with new weights"),
    ("efficient", "--encoder=random --backbone=keras:VGG16", "^--backbone=keras:VGG16: cannot begin with new"),
    ("embed", f"{EMBED} --encoder=keras:mobilenetv2", "^--encoder=keras:mobilenetv2: .* keras:MobileNetV2, "),
    ("embed", f"{EMBED} --encoder=torch:keras:VGG16", "^--encoder=torch:keras:VGG16: .*leave out torch:$"),
    ("embed", f"{EMBED} --encoder=graph:keras:VGG16", "^--encoder=graph:keras:VGG16: .*leave out graph:$"),
    ("embed", f"{EMBED} --encoder=keras:VGG16:x.keras", r"^--encoder=keras:VGG16:x.keras: .*end with \.h5"),
    ("embed", f"{EMBED} --encoder=keras:VGG16:x.h5", "^--encoder=keras:VGG16:x.h5: there is no such file"),
    ("linear", "--encoder=keras:VGG16 --signature=x --augment=none --dataset=folder:PICTURES --test_split=val",
     "^--signature=x: is only for third-party modules"),
    ("embed", f"{EMBED} --encoder=random:", "^--encoder=random: is empty: .*random:"),
    ("embed", f"{EMBED} --encoder=random:/nowhere", "^--encoder=/nowhere: there is no such directory"),
    ("embed", f"{EMBED} --encoder=imagenet", "^--encoder=imagenet: .* directory; released modules: .*openclipart_128px$"),
    ("pretrain", "--encoder=small --output_stack=4", "^--output_stack=4: .*small has only 3"),
    # ---- pre-training and objectives
    ("pretrain", "--image_size=400", "^--image_size=400: "),
    ("pretrain", "--patch_size=261", "^--patch_size=261: larger than --image_size=260"),
    ("pretrain", "--patch_stride=50", "^--patch_stride=50: the grid does not fit, 30 .* over; --image_size=230"),
    ("pretrain", "--resize=10000 --image_size=10000 --patch_stride=1", "^--patch_stride=1: .* are more than 2 GB"),
    ("pretrain", "--steps_to_ignore=0 --steps_to_predict=6", "^--steps_to_predict=6: "),
    ("pretrain", "--train_epochs=0", "^--train_steps=0: "),
    ("pretrain", "--objective=rotation --resize=64 --image_size=64 --patch_size=8 --patch_stride=8",
     "^--patch_size=8: this objective"),
    ("pretrain", "--objective=relative_position --resize=32 --image_size=32 --patch_size=16 --patch_stride=16",
     "^--patch_stride=16: the grid has only 2 rows"),
    ("pretrain", "--norm_images=4", "^--norm_images=4: groups the images .* batch norm takes statistics; --norm=layer with --obj"),
    ("linear", "--drop_steps=0", "^--drop_steps=0: must be whole numbers separated by commas, each above 0"),
    ("pretrain", "--objective=cpc+simclr", r"^--objective=cpc\+simclr: must be one of cpc, .*, or several"),
    ("pretrain", "--moco_dim=8", "^--moco_dim: goes only with --objective=moco"),
    ("pretrain", "--objective=cpc+cpc", r"^--objective=cpc\+cpc: must be one of .*, or several, each once, with \+"),
    ("pretrain", "--objective=moco+rotation --resize=64 --image_size=64 --patch_size=8 --patch_stride=8",
     "^--patch_size=8: this objective sees whole images"),
    ("pretrain", "--objective=rotation+cpc --steps_to_predict=6", "^--steps_to_predict=6: the grid has only 6 rows"),
    ("pretrain", "--objective=rotation+relative_position --negative_images=2",
     r"^--negative_images=2: --objective=rotation\+relative_position has no negatives"),
    ("pretrain", "--dataset=folder:PICTURES --split=train --batch_size=4 --accumulate=2 --objective=cpc+rotation",
     r"^--accumulate=2: --objective=cpc\+rotation compares images of different parts, .* that divides 2, "),
    ("pretrain", "--objective=rotation --negative_images=2 --image_size=24 --resize=24 --patch_size=24",
     "^--negative_images=2: --objective=rotation has no negatives; leave it"),
    ("pretrain", "--objective=rotation+moco+instance_bank --share_records --image_size=24 --resize=24 --patch_size=24",
     r"^--share_records: --objective=rotation\+moco\+instance_bank looks up each image by its place .*; leave it out$"),
    ("pretrain", "--objective=cmc --encoder=small --image_size=24 --resize=24 --patch_size=24",
     "^--encoder=small: CMC needs resnet50_lab, .*small_lab or base_lab$"),
    ("pretrain", "--objective=colorization --encoder=tiny_grey --augment=v1 --resize=9 --image_size=9 --patch_size=9",
     "^--augment=v1: removes the colours, which Colorization needs; use --augment=none$"),
    ("pretrain", "--objective=vicreg --batch_size=1 --image_size=24 --resize=24 --patch_size=24",
     "^--batch_size=1: VICReg learns from differences between images; use 2 or more$"),
    ("pretrain", "--objective=cpc+instance --negative_images=1",
     "^--negative_images=1: Instance discrimination learns from differences between images; use 2 or more$"),
    ("pretrain", "--dataset=folder:PICTURES --split=train --batch_size=4 --negative_images=3",
     "^--negative_images=3: --batch_size=4 cannot be divided into groups of this size; 1, 2, 4 would do$"),
    # ---- efficient
    ("efficient", "--crop_area=1e-320", "^--crop_area=1e-320: must be at least"),
    ("efficient", "--encoder=random --backbone=resnet50_v2,resnet", "^--backbone=.*: must be one of .*resnet50_v2"),
    ("efficient", "--encoder=random --backbone=small,tiny", "^--backbone=small,tiny: several are only for --encoder=pixels"),
    ("efficient", "--patience=3 --held_out=0", "^--patience=3: needs held-out labels"),
    ("efficient", "--patience=3 --drops_at=0.5", "^--drops_at=0.5: with --patience the held-out labels decide when rates"),
    ("efficient", f"{FEW_LABELS} --validation_split=train", "^--validation_split=train: contains all images of"),
    ("efficient", f"{FEW_LABELS} --validation_split=val", "^--validation_split=val: contains images of --test_split=val"),
    ("efficient", f"{FEW_LABELS} --validation_split=dev2", "^--validation_split=dev2: "),
    ("efficient", f"{FEW_LABELS} --label_fraction=0.1", "^--label_fraction=0.1: leaves none of the 2 labels of class"),
    ("efficient", f"{FEW_LABELS} --batch_size=64", "^--batch_size=64: more than the .* to train on; --batch_size="),
    ("efficient", "--stop_at_loss=1 --patience=2", "^--stop_at_loss=1.0: with --patience=2 the held-out labels end"),
    ("efficient", f"{FEW_LABELS} --stop_at_loss=1", "^--stop_at_loss=1.0: ends a frozen phase, and --encoder=pixels has"),
    ("efficient", f"{FEW_LABELS} --refit --labels_per_class=1", "^--refit: trains on all .*--labels_per_class"),
    ("efficient", "--refit --dataset=photos", "^--refit: only for your own images.*; --dataset=photos has a test"),
    ("efficient", "--head_width=3", "^--head_width=3: must be at least 4, or 0"),
    ("efficient", f"{FEW_LABELS} --test_split=nowhere", "^--test_split=nowhere"),
    ("efficient", "--propagation=vat --encoder=hub", "^--propagation=vat: a frozen encoder's classifier learns from"),
    ("efficient", "--propagation=pseudo_labels --encoder=pixels --patience=2 --held_out=0.2",
     "^--propagation=pseudo_labels: their weight"),
    ("efficient", "--propagation=uda --encoder=pixels --dataset=imagenet2012_subset/1pct",
     "^--propagation=uda: all images of --dataset=imagenet2012_subset/1pct .*=imagenet2012 --label_fraction=0.01,"),
    ("efficient", "--pseudo_begin=0.7", "^--pseudo_end=0.6: must be above --pseudo_begin=0.7"),
    ("efficient", "--teacher=dropout=0", "^--teacher=dropout=0: goes with --propagation=self_training"),
    ("efficient", "--propagation=self_training --teacher=dropout=2", "^--teacher=dropout=2: --dropout=2.0: must be at"),
    ("efficient", "--propagation=self_training --refit --labelled=p", "^--refit: cannot be used with --propagation=self_training"),
    ("efficient", "--propagation=uda --encoder=pixels --augment=none",
     "^--propagation=uda: needs the transformations of --augment, which is none"),
    ("efficient", "--propagation=vat --encoder=pixels --precision=float16",
     "^--propagation=vat: the gradient of an image is too small"),
    ("efficient", "--encoder=pixels --unlabelled=x", "^--unlabelled=x: needs --labelled=FOLDER, a folder of"),
    ("efficient", "--encoder=pixels --unlabelled=x --labelled=y",
     "^--unlabelled=x: a classifier learns from images without labels only"),
    # ---- linear
    ("linear", "--encoder=pixels --geometry_from=flags",
     "^--encoder=pixels: has no pre-training .* --augment=full, the paper's, or"),
    ("linear", "--encoder=x --augment_changes=grey=0", "^--augment_changes=grey=0: changes a named policy"),
    # ---- several encoders where one is needed
    ("linear", "--encoder=pixels,MODULE --dataset=photos", "^--encoder=pixels,.*: names several encoders"),
    ("efficient", f"{FEW_LABELS} --encoder=MODULE,pixels", "^--encoder=.*,pixels: names several encoders"),
    ("detect", f"{DETECT} --encoder=MODULE,pixels", "^--encoder=.*,pixels: names several encoders"),
    ("pretrain", "--dataset=photos --initial_encoder=MODULE,b", "^--initial_encoder=.*,b: names several encoders"),
    # ---- detect
    ("detect", "--canvas_height=-1", "^--canvas_height=-1: must be at least 0"),
    ("detect", "--canvas_colour_drop=1.5", "^--canvas_colour_drop=1.5: must be at most 1"),
    ("detect", "--max_boxes=0", "^--max_boxes=0: must be at least 1"),
    ("detect", "--anchor_sizes=nan", "^--anchor_sizes=nan: must be numbers .*, each a finite number"),
    ("detect", "--anchor_sizes=0.1,-1", "^--anchor_sizes=0.1,-1: must be numbers .*, each above 0"),
    ("detect", "--anchor_sizes=0.1;1", "^--anchor_sizes=0.1;1: must be numbers .*, e.g. 0.5,1,2"),
    ("detect", f"{DETECT} --encoder=", r"^--encoder= is empty"),
    ("detect", f"{DETECT} --encoder=/nowhere", r"^--encoder=/nowhere: there is no such directory"),
    ("detect", f"{DETECT} --encoder=random:/nowhere", r"^--encoder=/nowhere: there is no such directory"),
    ("detect", f"{DETECT} --encoder=pixels", r"^--encoder=pixels: a detector needs an encoder"),
    ("detect", f"{DETECT} --dataset=photos", r"^--dataset=photos: is not a dataset with boxes"),
    ("detect", f"{DETECT} --canvas_width=1005", r"^--canvas_width=1005: not a multiple of 8, .* 1008 would"),
    ("detect", f"{DETECT} --backbone_endpoint=stack9",
     r"^--backbone_endpoint=stack9: --encoder=random has the feature maps feature_map"),
    ("detect", f"{DETECT} --region_head=encoder --backbone_endpoint=feature_map",
     r"no stack follows --backbone_endpoint=feature_map in --encoder=random"),
    ("detect", "--anchor_ratios=", r"^--anchor_ratios=: must be numbers separated by commas"),
    ("detect", "--area_scale=1e-5", "^--area_scale=1e-05: must be at least 0.0001, or 0"),
    ("detect", "--area_scale=2 --canvas_height=800 --canvas_width=800",
     r"^--area_scale=2: images of 900000 px .*; 1 is 450000 px, at most 1.42 fits, and 0 t"),
    ("detect", "--anchor_ratios=1,0", r"^--anchor_ratios=1,0: must be numbers separated by commas.*, each at least 0.001"),
    ("detect", "--rate_drops=2", r"^--rate_drops=2: must be numbers separated by commas, each at most 0.9999"),
    ("detect", f"{DETECT} --batch_size=4 --train_steps=2 --frozen_epochs=9",
     "^--frozen_epochs=9.0: 9 steps of 4 images are the whole run, which has 2"),
    ("detect", f"{DETECT} --batch_size=4 --train_steps=9 --frozen_epochs=1 --held_out=0.9",
     "^--held_out=0.9: splits the 4 training images into 0 to train on and 4 to choose"),
    ("detect", f"{DETECT} --area_scale=9", r"^--area_scale=9: images of \d+ px are more than the "),
    # ---- training: strategies, batches, work directories
    ("pretrain", "--strategy=multiworker --dataset=folder:PICTURES --split=train",
     "^--strategy=multiworker: the environment variable TF_CONFIG is not set; set it as docs/scale.md shows"),
    # ---- export
    ("export", "--workdir=", "^--workdir= is empty: name the directory of a run"),
    ("export", "--workdir=/nowhere --output=EMPTY/hub", "^--workdir=/nowhere: holds no run"),
    ("export", "--workdir=run --module=hub --format=tflite", "^--module=hub: not with --workdir=run"),
    ("export", "--module=hub --output=EMPTY/x", "^--module=hub: without --format it must be an encoder that `cpc-tf"),
    ("export", "--format=onnx --quantize=int8", "^--quantize=int8: not with --format=onnx"),
    ("export", "--format=tflite --quantize=int8", "^--quantize=int8: needs --representative=FOLDER"),
    ("export", "--format=tflite --representative=p", "^--representative=p: only --quantize=int8 uses it"),
    ("export", "--labelled=p", "^--labelled=p: not used with --format=savedmodel"),
    ("export", "--format=serving --module=MODULE --output=MODULE", "^--output=MODULE: has .*, and is not a folder of ver"),
    ("export", "--format=serving --module=PICTURES --output=EMPTY/x", "^--module=PICTURES: is not a SavedModel"),
    ("export", "--format=tflite --module=/nowhere --output=EMPTY/x", "^--module=/nowhere: there is no such directory"),
    ("export", "--format=tflite --module=EMPTY --output=EMPTY/x", "^--module=EMPTY: has no encoder.json or classifier"),
    # ---- predict, embed, report
    ("report", "--output=", "^--output= is empty"),
    ("report", "--runs=EMPTY --output=EMPTY/report", "^--runs=EMPTY: no result"),
    ("predict", "--pictures=PICTURES --output=-", "^--model= is empty"),
    ("predict", "--model=MODULE --output=-", "^--pictures= is empty"),
    ("predict", "--model=MODULE --pictures=PICTURES --output=p.xlsx", "^--output=p.xlsx: must end with"),
    ("predict", "--output=boxes.csv --coco_ids=a.json", "^--coco_ids=a.json: goes with .*, not --output=boxes.csv"),
    ("predict", "--output=boxes.csv --boxes_format=yolo", "^--boxes_format=yolo: goes with a folder, not --output"),
    ("predict", "--model=/nowhere --pictures=PICTURES --output=-", "^--model=/nowhere: there is no such directory"),
    ("predict", "--model=EMPTY --pictures=PICTURES --output=-", "^--model=EMPTY: has no classifier.json or"),
    ("predict", "--model=MODULE --pictures=PICTURES --output=-", "^--model=MODULE: holds an encoder, .*cpc-tf embed"),
    ("embed", "--encoder=MODULE --pictures=PICTURES --output=x.txt", "^--output=x.txt: must end with"),
    ("embed", f"{EMBED} --pictures=EMPTY/none", "^--pictures=EMPTY/none: there is no"),
    ("embed", f"{EMBED} --pictures=PICTURES/val/red/0.png,PICTURES/val", "val is a folder; give one folder"),
    ("embed", f"{EMBED} --pictures=EMPTY", "^--pictures=EMPTY: no image in this folder"),
]  # fmt: skip


def case(command, flags, message, file=b""):
    """The row as a test: with words of its own, a short name, and as slow as what it names."""
    words = flags.split() if isinstance(flags, str) else flags
    marks = [pytest.mark.slow] if any("MODULE" in word for word in words) else []
    name = ascii(" ".join([command, *words]))[1:-1][:60]
    return pytest.param(command, words, message, file, id=name, marks=marks)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A function that puts paths in place of the names of folders in a text; and the path of
    FILE.
    """
    root = tmp_path_factory.mktemp("refusals")

    @functools.cache
    def path(name):
        FOLDERS[name](root / name.lower())
        return str(root / name.lower())

    def fill(text, quote=str):
        for name in FOLDERS:
            text = text.replace(name, quote(path(name))) if name in text else text
        return text.replace("/../FILE", "/../x.flags").replace("FILE", quote(f"{root}/x.flags"))

    return fill


@pytest.mark.parametrize(("command", "words", "message", "file"), [case(*row) for row in TABLE])
def test_it_is_refused_in_one_line(command, words, message, file, filled, monkeypatch):
    monkeypatch.setenv("CPC_TF_CACHE", f"{filled('EMPTY')}_cache")
    monkeypatch.setattr(
        loop, "train", lambda *_, **__: pytest.fail("it was not refused: it trains")
    )
    pathlib.Path(filled("FILE")).write_bytes(filled(file.decode("latin-1")).encode("latin-1"))
    words = [filled(word) for word in words]
    if command in TASKS:
        words.insert(0, filled("--workdir=EMPTY/run"))
    with pytest.raises(ConfigError, match=filled(message, re.escape)) as refusal:
        COMMANDS[command](cli.parse(COMMANDS[command].config, words))
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 600
    assert not list(pathlib.Path(filled("EMPTY")).iterdir())  # nothing is left behind
