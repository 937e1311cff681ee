"""Residual networks for small images (He et al., 2016)."""

from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.networks.network import Shape

SMALLEST = 8  # pixels: after three halvings one is left


def resnet(
    shape: Shape, classes: int, *, depth: int = 20, width: int | None = None, batchnorm: bool = True
) -> "ResNet":
    """A ResNet for images of any size from 8×8 up.

    A depth of 6n + 2 (8, 14, 20, 32, 44, 56, 110, ..) is the paper's for CIFAR: three stages of n blocks, 16, 32 and 64
    channels wide. 18 is the common ResNet-18 for 32×32: a 3×3 convolution first and no pooling, then four stages of two
    blocks, 64 to 512 wide. `width`: of the first stage. Shortcuts that change the shape are 1×1 convolutions (his
    option B).

    Without `batchnorm` convolutions have biases, and each block starts as its shortcut: its second convolution is 0.
    """
    if depth != 18 and (depth < 8 or depth % 6 != 2):
        raise ValueError(f"a ResNet of depth {depth}: choose 18, or 6n + 2, as 8, 14, 20, 32, 44, 56 or 110")
    if min(shape[1:]) < SMALLEST:
        raise ValueError(f"images of {shape[1]}×{shape[2]} are too small for a ResNet: it takes 8×8 and more")
    width = (64 if depth == 18 else 16) if width is None else width
    if width < 1:
        raise ValueError(f"a ResNet of width {width}: it must be 1 or more")
    stages = [2] * 4 if depth == 18 else [(depth - 2) // 6] * 3
    return ResNet(shape[0], classes, stages, width, batchnorm=batchnorm)


class ResNet(nn.Module):
    """`stages`: blocks of each; a stage is twice as wide as the one before and half as high."""

    def __init__(self, channels: int, classes: int, stages: list[int], width: int, *, batchnorm: bool):
        super().__init__()
        self.first = convolution(channels, width, 3, batchnorm=batchnorm)
        self.norm = norm(width, batchnorm=batchnorm)
        blocks: list[Block] = []
        inputs = width
        for stage, number in enumerate(stages):
            for block in range(number):
                stride = 2 if stage and not block else 1
                blocks.append(Block(inputs, width << stage, stride, batchnorm=batchnorm))
                inputs = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.logits = nn.Linear(inputs, classes)
        # Modules are made in the order in which they run.
        self.layers = [name for name, module in self.named_modules() if isinstance(module, nn.Conv2d)]

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        logits: Tensor = self.logits(self.blocks(x).mean((2, 3)))
        return logits


class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, batchnorm: bool):
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride, batchnorm=batchnorm)
        self.norm1 = norm(outputs, batchnorm=batchnorm)
        self.conv2 = convolution(outputs, outputs, 3, batchnorm=batchnorm)
        self.norm2 = norm(outputs, batchnorm=batchnorm)
        if not batchnorm:  # what is added to the shortcut does not grow with the depth
            nn.init.zeros_(self.conv2.weight)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut.append(convolution(inputs, outputs, 1, stride, batchnorm=batchnorm))
            self.shortcut.append(norm(outputs, batchnorm=batchnorm))

    def forward(self, x: Tensor) -> Tensor:
        residual = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(residual + self.shortcut(x))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, *, batchnorm: bool) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=not batchnorm)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


def norm(channels: int, *, batchnorm: bool) -> nn.Module:
    return nn.BatchNorm2d(channels) if batchnorm else nn.Identity()
