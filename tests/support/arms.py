"""Every arm of ours, as trials name them."""

from pilotstudy.arms.catalogue import all_arms

TRAINABLE = [f"{name}+pilot-a-aug" if arm.wraps else name for name, arm in all_arms().items()]
