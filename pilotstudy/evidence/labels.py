"""What rows are called where people read them."""

from pilotstudy.study.statements import Row


def row_label(row: Row) -> str:
    """A row's name as the paper would print it."""
    arm = row.declaration
    label = arm.label if arm else row.arm.capitalize()
    if row.mode == "mc":
        label = arm.sampled_label if arm else f"MC {row.arm}"
    if row.mode == "seeds":
        label = f"{label}, ensemble of seeds"
    return label + (", tuned" if row.phase == "confirm" else "")
