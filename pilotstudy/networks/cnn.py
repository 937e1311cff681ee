"""The paper's small convolutional network."""

from torch import nn

from pilotstudy.networks.network import Network, Shape


def cnn(shape: Shape, classes: int, *, batchnorm: bool = False) -> Network:
    """Convolutions of stride 2 (5×5 to 16 channels, 5×5 to 32, 3×3 to 64), a dense layer of 128, the logits; ReLUs.

    The paper says only "small convolutional networks". On 32×32 images the layers have 4096, 2048, 1024 and 128 units,
    10,378 with input and logits: strides in place of pooling keep what the DGM must model small.
    """
    network = Network(["conv1", "conv2", "conv3", "dense"])
    channels, height, width = shape
    for name, out, kernel in zip(network.layers[:3], (16, 32, 64), (5, 5, 3), strict=True):
        network.add_module(name, nn.Conv2d(channels, out, kernel, stride=2, padding=kernel // 2))
        if batchnorm:
            network.add_module(f"{name}_norm", nn.BatchNorm2d(out))
        network.add_module(f"{name}_relu", nn.ReLU())
        channels, height, width = out, (height + 1) // 2, (width + 1) // 2
    network.add_module("flatten", nn.Flatten())
    network.add_module("dense", nn.Linear(channels * height * width, 128))
    if batchnorm:
        network.add_module("dense_norm", nn.BatchNorm1d(128))
    network.add_module("dense_relu", nn.ReLU())
    network.add_module("logits", nn.Linear(128, classes))
    return network
