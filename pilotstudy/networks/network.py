"""What every network has: named layers whose outputs are the raw activations a¹..aᴸ⁻¹."""

from torch import nn

Shape = tuple[int, int, int]  # channels, height, width


class Network(nn.Sequential):
    """A chain of named modules; `layers` are those before an activation function, without the logits."""

    every_unit = True  # the paper's DGM sees all of them

    def __init__(self, layers: list[str]):
        super().__init__()
        self.layers = layers
