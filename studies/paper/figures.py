"""The figures of Henaff et al. 2020 that ours stand beside, as printed there: floats are percent.

Tables are numbered as LaTeX numbers them: 1 linear, 2 pixels against CPC, 3 other semi-supervised
methods, 4 detection.
"""

# Table 1, "Linear classification accuracy, and comparison to other self-supervised methods":
# heading -> (method, millions of parameters, top-1, top-5).
TABLE_1 = {
    "Methods using ResNet-50": (
        ("Instance Discr.", 24, 54.0, None),
        ("Local Aggr.", 24, 58.8, None),
        ("MoCo", 24, 60.6, None),
        ("PIRL", 24, 63.6, None),
        ("CPC v2 - ResNet-50", 24, 63.8, 85.3),
    ),
    "Methods using different architectures": (
        ("Multi-task", 28, None, 69.3),
        ("Rotation", 86, 55.4, None),
        ("CPC v1", 28, 48.7, 73.6),
        ("BigBiGAN", 86, 61.3, 81.9),
        ("AMDIM", 626, 68.1, None),
        ("CMC", 188, 68.4, 88.2),
        ("MoCo", 375, 68.6, None),
        ("CPC v2 - ResNet-161", 305, 71.5, 90.1),
    ),
}

# Table 2, "Data-efficient image classification", and figure 1. ImageNet has 1,281,167 training
# images.
IMAGES = 1281167
FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PIXELS = "ResNet-200 trained on pixels"
CPC = "ResNet-33 trained on CPC features"
TABLE_2 = {
    "top1": {
        PIXELS: (23.1, 34.8, 50.6, 62.5, 70.3, 75.9, 80.2),
        CPC: (52.7, 60.4, 68.1, 73.1, 76.7, 81.2, 83.4),
    },
    "top5": {
        PIXELS: (44.1, 59.9, 75.2, 83.9, 89.4, 93.1, 95.2),
        CPC: (78.3, 83.9, 88.8, 91.2, 93.3, 95.6, 96.5),
    },
}
# "Gain in data-efficiency" as printed. Its rule gives 2 at 10 % and 2.5 at 20 % for top-5: the two
# seem swapped.
GAIN = {"top1": (5, 2.5, 2, 2, 2.5, 2, None), "top5": (5, 5, 2, 2.5, 2, 2, None)}

# Table 3, "Comparison to other methods for semi-supervised learning": heading -> (method, top-5 at
# these fractions). The first heading is ours.
TABLE_3_FRACTIONS = (0.01, 0.1, 1.0)
TABLE_3 = {
    "Trained on labels alone": (("Supervised baseline", 44.1, 83.9, 95.2),),
    "Methods using label-propagation": (
        ("Pseudolabeling", 51.6, 82.4, None),
        ("VAT + Entropy Min.", 47.0, 83.4, None),
        ("Unsup. Data Aug.", None, 88.5, None),
        ("Rot. + VAT + Ent. Min.", None, 91.2, 95.0),
    ),
    "Methods using representation learning only": (
        ("Instance Discr.", 39.2, 77.4, None),
        ("PIRL", 57.2, 83.8, None),
        ("Rotation", 57.5, 86.4, None),
        ("BigBiGAN (fixed)", 55.2, 78.8, 87.0),
        ("AMDIM (fixed)", 67.4, 85.8, 92.2),
        ("CPC v2 (fixed)", 77.1, 90.5, 96.2),
        ("CPC v2 (fine-tuned)", 78.3, 91.2, 96.5),
    ),
}

# Table 4, "Comparison of PASCAL VOC 2007 object detection accuracy to other transfer methods": mAP.
TABLE_4 = {
    "Transfer using labeled data": (("Supervised baseline", "Faster: R152", 74.7, None),),
    "Transfer using unlabeled data": (
        ("Exemplar", "Faster: R101", 60.9, None),
        ("Motion Segm.", "Faster: R101", 61.1, None),
        ("Colorization", "Faster: R101", 65.5, None),
        ("Relative Pos.", "Faster: R101", 66.8, None),
        ("Multi-task", "Faster: R101", 70.5, None),
        ("Instance Discr.", "Faster: R50", 65.4, None),
        ("Deep Cluster", "Fast: VGG-16", 65.9, None),
        ("Deeper Cluster", "Fast: VGG-16", 67.8, None),
        ("Local Aggregation", "Faster: R50", 69.1, None),
        ("PIRL", "Faster: R50", 73.4, None),
        ("Momentum Contrast", "Faster: R50", 74.9, None),
        ("CPC v2", "Faster: R161", 76.6, None),
    ),
}

# Figure 3: name -> (what it adds, what the text of section 4.1 says it brought in top-1). The
# figure's own values are not printed.
LADDER = {
    "v1": ("CPC v1", ""),
    "MC": ("model capacity", "+5%"),
    "BU": ("bottom-up predictions", "+2%"),
    "LN": ("layer normalization", "+2%"),
    "RC": ("random colour dropping", "+3%"),
    "HP": ("horizontal predictions", "+2.5% for all four directions"),
    "LP": ("larger patches", "+2%"),
    "PA": ("patch augmentation", "+4.5% in total"),
}
