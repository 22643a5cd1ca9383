"""Fine-tunes a detector on an encoder (Faster R-CNN, Sec. 4.3 of the paper) and scores it by the rules of PASCAL VOC.

    cpc-tf detect --preset=collages/detect --encoder=runs/photos/small/hub \\
      --workdir=runs/collages/small/detect

Writes to its workdir result.json, table.txt, curves.png (precision over recall), sheet.png (true and found boxes, worst
misses first), detections.json and detections/ (VOC's result files, which other tools can score), class_names.json, and
the files of every run.
"""

from cpc_tf import cli
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.run import detect

if __name__ == "__main__":
    cli.run(DetectConfig, detect)
