"""Networks of torchvision and timm, untrained, for any number of channels and classes."""

from torch import nn

from pilotstudy.errors import InputError, nearest
from pilotstudy.networks.network import Shape


def torchvision(name: str, shape: Shape, classes: int, **options: object) -> nn.Module:
    """`torchvision.models`; where images are not in colour, its first convolution takes their channels."""
    from torchvision import models

    if name not in models.list_models():
        raise InputError(f"torchvision has no network {name!r}: {nearest(name, models.list_models())}")
    network: nn.Module = models.get_model(name, weights=None, num_classes=classes, **options)
    if shape[0] != 3:
        _take_channels(network, shape[0])
    return network


def _take_channels(network: nn.Module, channels: int) -> None:
    for path, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            parent, _, own = path.rpartition(".")
            taking = nn.Conv2d(
                channels,
                module.out_channels,
                module.kernel_size,  # type: ignore[arg-type]
                module.stride,  # type: ignore[arg-type]
                module.padding,  # type: ignore[arg-type]
                bias=module.bias is not None,
            )
            setattr(network.get_submodule(parent), own, taking)
            return


def timm(name: str, shape: Shape, classes: int, **options: object) -> nn.Module:
    """`timm.create_model`."""
    try:
        from timm import create_model, list_models
    except ImportError as error:
        raise InputError("timm is not installed: pip install timm") from error
    if name not in list_models():
        raise InputError(f"timm has no network {name!r}: {nearest(name, list_models(f'*{name[:4]}*') or [name])}")
    network: nn.Module = create_model(name, pretrained=False, num_classes=classes, in_chans=shape[0], **options)
    return network
