"""Images with boxes, in the formats of VOC, COCO and YOLO, and on a canvas of fixed size."""
