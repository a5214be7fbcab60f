"""Lesson 21, ★: whose keys a device holds at a step of the ring."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def holder(device: int, step: int, devices: int) -> int:
    """Whose block of keys ``device`` holds after ``step`` sends, if every device sends to the next one."""
    return (device - step) % devices  # eq. 21.1


def cases() -> list[Case]:
    """At the start, after one send, around the ring, after a whole turn, and after more."""
    calls = [
        (0, 0, 1), (2, 0, 4), (1, 1, 3), (2, 1, 3), (0, 1, 3), (3, 2, 4), (1, 3, 4), (0, 3, 5), (4, 4, 5), (2, 7, 8),
        (1, 4, 4), (0, 127, 128), (1, 9, 4), (0, 140, 49),
    ]
    return [Case(f"device {d} of {n} after {t} send{'s' * (t != 1)}", (d, t, n)) for d, t, n in calls]


RING = "(device - step) % devices"

EXERCISE = Exercise(
    lesson="21", stars=1, reference=holder, cases=cases,
    hints=(
        "At step 0 every device holds its own block. What does device 2 receive first, and from whom?",
        "A block moves one device forward at each send. So the block that's here now began as many devices back as "
        "there were sends.",
        "Count back from device 0 and you arrive at the last device: % does it in Python.",
    ),
    without={"devices": "Your number leaves the ring: before device 0 comes the last one. Take it modulo the number "
                        "of devices, eq. 21.1."},
    mistakes=(
        Mistake("Your number comes back positive, on the wrong side: −1 is the last device, not device 1. Use %, not "
                "abs: eq. 21.1.",
                but(RING, "abs(device - step) % devices"), but(RING, "abs(device - step)")),
        Mistake("You move the blocks once too often: after 0 sends every device holds its own block, eq. 21.1.",
                but(RING, "(device - step - 1) % devices")),
        Mistake("That's the device the keys go to next, or come from. We want the one where the block began, step "
                "devices back: eq. 21.1.",
                but(RING, "(device + 1) % devices"), but(RING, "(device - 1) % devices")),
        Mistake("All devices would hold the same block. At every step, each device holds a different one, eq. 21.1.",
                but(RING, "step % devices"), but(RING, "-step % devices"), but(RING, "step")),
    ),
)
