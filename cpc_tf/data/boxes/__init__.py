"""Pictures with boxes in the formats of VOC, COCO and YOLO."""
