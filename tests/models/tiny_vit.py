"""A tiny random ViT in a folder, with its image processor, and a picture for it."""

from pathlib import Path

import torch
from PIL import Image, ImageDraw
from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

SETTINGS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def save_tiny_vit(folder: Path) -> Path:
    """Write the model; it reads 4 × 4 patches."""
    torch.manual_seed(3)
    config = ViTConfig(**SETTINGS, image_size=32, patch_size=8)
    ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_picture(path: Path) -> Path:
    """A red ball on white, wider than high."""
    image = Image.new("RGB", (90, 60), "white")
    ImageDraw.Draw(image).ellipse((30, 15, 60, 45), fill=(200, 0, 0))
    image.save(path)
    return path
